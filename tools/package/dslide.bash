# Completion of dslide's command lines in bash: commands and options are those that --help lists,
# keys of --set those that --help-config lists.

_dslide_commands() {
  "$@" --help 2>/dev/null | sed -nE '/^usage: .* COMMAND /,/--help lists/s/^  ([a-z]+) .*/\1/p'
}

_dslide() {
  local cur prev words cword split
  _init_completion -s -n = || return
  local -a command=("${words[0]}")
  local i
  for ((i = 1; i < cword; i++)); do
    [[ ${words[i]} == -* ]] && break
    [[ " $(_dslide_commands "${command[@]}" | tr '\n' ' ') " == *" ${words[i]} "* ]] || break
    command+=("${words[i]}")
  done
  local commands
  commands=$(_dslide_commands "${command[@]}")
  if [[ $commands && $cur != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
    return
  fi
  if [[ $prev == --set ]]; then
    [[ $cur == *=* ]] && return
    local keys
    keys=$("${command[@]}" --help-config 2>/dev/null |
      awk '/^\[/ {section = $1; gsub(/[][]/, "", section)} /^  [a-z_0-9]+ =/ {print section "." $1 "="}')
    mapfile -t COMPREPLY < <(compgen -W "$keys" -- "$cur")
    compopt -o nospace
    return
  fi
  if [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("${command[@]}" --help 2>/dev/null |
      sed -nE 's/^  (--[a-z-]+).*/\1/p')" -- "$cur")
    return
  fi
  _filedir
}

complete -F _dslide dslide dslide-scheduler dslide-server dslide-worker
