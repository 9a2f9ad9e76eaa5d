// The commands about the keys of encrypted runs. Each is a main(): arguments in, exit code out.
#pragma once

namespace dslide {

int KeyInitCommand(int argc, char** argv);
int KeyJoinCommand(int argc, char** argv);
int KeyAllowCommand(int argc, char** argv);
int KeyListCommand(int argc, char** argv);
int KeyRevokeCommand(int argc, char** argv);
int KeyRotateCommand(int argc, char** argv);

}  // namespace dslide
