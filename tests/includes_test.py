#!/usr/bin/env python3
"""Checks that each source and each header includes what it uses, itself or through the project's headers.

    tests/includes_test.py [--root DIR]

Fails, with the name and a header that has it, when
  - a name of the standard library or the system in HEADERS is used without any of its headers,
  - a function that just one of the project's headers declares is called without that header.

Files *_inl.h are parts of others. Builds that compile several sources together do not find this. tools/test-builds compiles each alone.
"""
import argparse
import collections
import os
import re
import subprocess
import sys

# Names, and the headers of which one has to be included.
HEADERS = {
    "algorithm": "std::(sort|stable_sort|min_element|max_element|clamp|lower_bound|upper_bound|nth_element|"
                 "equal_range|any_of|all_of|none_of|find_if|count_if|stable_partition|partial_sort|copy_if|"
                 "transform|shuffle|unique|reverse|rotate|fill_n|replace|min|max)\\s*[(<]|std::ranges::\\w+\\(",
    "array": "std::array<",
    "atomic": "std::atomic\\w*[<\\s]",
    "bit": "std::(bit_cast|bit_width|popcount|countr_zero|countl_zero|bit_ceil|has_single_bit|endian)\\b",
    "charconv": "std::(from_chars|to_chars)\\b",
    "chrono": "std::chrono::",
    "cmath cstdlib": "std::abs\\(",
    "cmath": "std::(sqrt|log2?|log1p|exp2?|expm1|pow|floor|ceil|round|lround|llround|isfinite|isnan|tanh|fabs)\\(",
    "condition_variable": "std::condition_variable\\b",
    "cerrno errno.h": "\\berrno\\b|\\bE(NOSPC|NOENT|EXIST|INTR|AGAIN|ACCES|INVAL|PIPE)\\b",
    "csignal signal.h sys/wait.h": "\\bSIG[A-Z]{3,6}\\b|\\bkill\\(\\w",
    "cstdio stdio.h": "std::(printf|fprintf|fputs|fflush|rename|remove|snprintf|setvbuf|freopen)\\(|\\bstd(out|err)\\b",
    "cstdlib stdlib.h": "std::(getenv|abort|exit|strtod|strtoull?|atoi|quick_exit|_Exit|system)\\(|\\b(setenv|unsetenv|mkdtemp)\\(",
    "cstring string.h": "std::(memcpy|memset|memcmp|memmove|strerror|strlen|strcmp)\\(",
    "deque": "std::deque<",
    "exception": "std::(exception_ptr|current_exception|rethrow_exception|terminate)\\b",
    "fcntl.h": "\\b(O_RDONLY|O_CREAT|O_CLOEXEC|F_SETLK|F_SETFD|FD_CLOEXEC)\\b",
    "filesystem": "std::filesystem::",
    "fstream": "std::(if|of|f)stream\\b",
    "functional": "std::(function<|hash<|greater<|less<|ref\\(|bind\\(|minus<|plus<)",
    "future": "std::(future|promise|async)\\b",
    "initializer_list": "std::initializer_list<",
    "limits": "std::numeric_limits<",
    "list": "std::list<",
    "map": "std::(multi)?map<",
    "memory": "std::(unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared)<",
    "mutex": "std::(mutex|lock_guard|unique_lock|scoped_lock|once_flag|call_once|recursive_mutex)\\b",
    "numeric": "std::(accumulate|iota|gcd|lcm|partial_sum|reduce|inner_product)\\(",
    "optional": "std::(optional<|nullopt\\b|make_optional\\()",
    "poll.h": "\\b(pollfd|POLLIN|POLLOUT)\\b",
    "queue": "std::(priority_queue|queue)<",
    "random": "std::(random_device|mt19937)",
    "regex": "std::regex",
    "set": "std::(multi)?set<",
    "shared_mutex": "std::shared_(mutex|lock)\\b",
    "span": "std::span\\b",
    "sstream": "std::[io]?stringstream\\b",
    "string": "std::(string\\b(?!_)|to_string\\(|sto(i|u|ul|ull|d|f|l|ll)\\()",
    "string_view": "std::string_view\\b",
    "sys/stat.h": "\\bstruct stat\\b|\\b(S_ISREG|S_ISDIR|fchmod|mkfifo)\\(",
    "sys/wait.h": "\\b(waitpid|WIFEXITED|WEXITSTATUS|WIFSIGNALED|WTERMSIG)\\(",
    "thread": "std::(thread|jthread|this_thread)\\b",
    "tuple": "std::(tuple<|tie\\(|make_tuple\\(|tuple\\()",
    "type_traits": "std::(is_\\w+_v|decay_t|remove_cvref_t|enable_if_t|conditional_t|type_identity_t)\\b",
    "unistd.h": "\\b(getpid|getppid|fsync|fdatasync|ftruncate|fork|_exit|execv|execvp|dup2|isatty|geteuid|getuid|usleep|sysconf|pread|pwrite)\\(",
    "unordered_map": "std::unordered_map<",
    "unordered_set": "std::unordered_set<",
    "utility": "std::(move|forward|exchange|swap|pair|make_pair)\\b(?!_)",
    "variant": "std::(variant<|visit\\(|get_if<|holds_alternative<|monostate\\b)",
    "vector": "std::vector<",
}
# Other headers that libstdc++ includes in these.
ALSO = {
    "string": ["string_view", "initializer_list"], "vector": ["initializer_list"],
    "map": ["utility", "initializer_list"], "set": ["initializer_list"], "unordered_map": ["utility"],
    "utility": ["initializer_list"], "tuple": ["utility"], "algorithm": ["initializer_list"],
    "filesystem": ["string"], "sstream": ["string"], "fstream": ["string"], "regex": ["string"],
}
# A function that a header declares, outside of classes and of other namespaces than the project's.
DECLARED = re.compile(r"^(?! )[\w:<>,&*\[\] ]+?[&*> ]([A-Z]\w+)\(", re.M)
CALL = re.compile(r"(?<![\w.:>~])([A-Z]\w*[a-z]\w*)\(")
# A name that the file itself declares: the text before it.
OWN = r"(?:class|struct) %s\b|(?:^|[;{}(,]|\b(?!return|else|throw|new|case|co_return|and|or|not)[\w>&*]+[&*]? +[&*]*)~?%s\("


def code_of(text):
    """Without comments, and without what is between quotes."""
    text = re.sub(r'R"(\w*)\(.*?\)\1"', '""', text, flags=re.S)
    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'",
                  lambda match: '""' if match[0][0] == '"' else " ", text, flags=re.S)


class Sources:
    def __init__(self, root):
        listed = subprocess.run(["git", "-C", root, "ls-files", "*.h", "*.cc"], capture_output=True,
                                text=True, check=True).stdout.split()
        self.includes, self.system, self.code = {}, {}, {}
        for path in listed:
            if not os.path.exists(os.path.join(root, path)):
                continue
            with open(os.path.join(root, path), encoding="utf-8") as file:
                text = file.read()
            self.includes[path] = re.findall(r'^#include "([^"]+)"', text, re.M)
            self.system[path] = re.findall(r"^#include <([^>]+)>", text, re.M)
            self.code[path] = code_of(text)
        self._closure = {}
        self.called, self.declared = {}, collections.defaultdict(set)
        for path in self.code:
            self.called[path] = set(CALL.findall(self.code[path]))
            if path.endswith(".h"):
                for name in DECLARED.findall(self.code[path]):
                    self.declared[name].add(path)

    def closure(self, path):
        """The project's files that a file includes, with itself."""
        if path not in self._closure:
            seen, open_ = set(), [path]
            while open_:
                one = open_.pop()
                if one in seen or one not in self.includes:
                    continue
                seen.add(one)
                open_ += self.includes[one]
            self._closure[path] = seen
        return self._closure[path]

    def missing(self, path):
        closure = self.closure(path)
        system = {header for one in closure for header in self.system[one]}
        system |= {also for header in list(system) for also in ALSO.get(header, [])}
        code = self.code[path]
        for headers, names in HEADERS.items():
            if system.isdisjoint(headers.split()):
                found = re.search(names, code)
                if found:
                    yield found[0].strip(" (<"), f"<{headers.split()[0]}>"
        for name in self.called[path]:
            places = self.declared.get(name, ())
            if len(places) != 1 or not closure.isdisjoint(places):
                continue
            mentions = re.compile(rf"\b{name}\(")
            if any(mentions.search(self.code[one]) for one in closure - {path}):
                continue
            if not re.search(OWN.replace("%s", name), code, re.M):
                yield name + "()", f'"{next(iter(places))}"'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sources = Sources(parser.parse_args().root)
    complaints = [f"{path}: uses {name} without {header}"
                  for path in sorted(sources.code) if not path.endswith("_inl.h")
                  for name, header in sources.missing(path)]
    print("\n".join(complaints))
    print(f"includes: {len(sources.code)} files, {len(complaints)} complaints")
    return 1 if complaints or not sources.code else 0


if __name__ == "__main__":
    sys.exit(main())
