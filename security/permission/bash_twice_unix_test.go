//go:build unix

package permission_test

import (
	"strings"
)

// twice writes a form of double evaluation: a command in a text (C), the text in quotes (V), a variable
// that gives the text another meaning, and what evaluates it.
func (g generator) twice() string {
	text := strings.ReplaceAll(g.pick("(C)", "(C)", "C", "([0]=C)", "([C]=1)", "(x C)", "a[C]", "a[C]", "a[C]=1", "(a[C])", "a[0]+a[C]",
		"-v a[C]", "x=C", "x=(C)", "-a x=(C)"),
		"C", g.pick("$(evil)", "$(evil)", "`evil`", "<(evil)", "$(evil >pwn)", "$(>pwn)", "${u:-$(evil)}", "$((a[`evil`]))", "${u[$(evil)]}"))
	before, value := "", quote(text)
	use := strings.ReplaceAll(g.pick(evaluators...), "␤", "\n")
	switch g.IntN(8) {
	case 0:
		value = "$'" + strings.NewReplacer("$", `\x24`, "`", `\140`, "<", `\u3c`).Replace(text) + "'"
	case 1:
		value = `"` + strings.NewReplacer("$", `\$`, "`", "\\`").Replace(text) + `"`
	case 2:
		value = `"` + text[:1] + `"` + quote(text[1:])
	case 3:
		before, value = "y="+value+"; ", g.pick(`"$y"`, "$y", "${y}", `"($y)"`, `"a[$y]"`, `"${y:0}"`, `"${y#q}"`)
	case 4:
		before, value = g.pick("read -r y <<<"+value, "printf -v y %s "+value, "export y="+value, ": ${y:="+value+"}", "y=("+value+")",
			"declare y="+value)+"; ", g.pick(`"$y"`, "$y")
	case 5:
		return g.inside("for y in " + value + "; do " + g.attribute() + strings.ReplaceAll(use, "V", g.pick(`"$y"`, "$y")) + "\ndone")
	}
	if g.IntN(3) == 0 {
		before = g.attribute() + before
	} else {
		before += g.attribute()
	}
	after := g.pick("", "", "", "\n: $x", "\n: \"${x[0]}\"", "\n: $((x))", "\n: ${x[x]}", "\n: ${z:x}", "\ndeclare -p x", "\n[[ $x ]]",
		"\nexport x", "\nx+=1", "\n: ${x@P}", "\ndeclare -a x")
	return g.inside(before + strings.ReplaceAll(use, "V", value) + after)
}

// attribute returns a command by which x or the shell treats texts in another way.
func (g generator) attribute() string {
	return g.pick("", "", "", "declare -a x; ", "x=(1); ", "x[0]=1; ", "declare -i x; ", "command typeset -i x; ",
		"builtin declare -ai x; ", "declare -A x; ", "read -a x <<<1; ", "read -ra x <<<1; ", "mapfile -t x </dev/null; ",
		"declare -n x=z; ", "export x=1; ", "readonly -a x; ", "export -a x; ", "command declare -a x; ", "set -x; ", "set -o posix; ",
		"shopt -s expand_aliases; ", "coproc x { :; }; ")
}

// inside puts a script into another.
func (g generator) inside(script string) string {
	switch g.IntN(16) {
	case 0:
		return "eval " + quote(script)
	case 1:
		return "bash -c " + quote(script)
	case 2:
		return "(" + script + "\n)"
	case 3:
		return "{ " + script + "\n}"
	case 4:
		return "if true; then " + script + "\nfi"
	case 5:
		return "echo a | while read -r l; do " + script + "\nbreak; done"
	case 6:
		return "f() { " + script + "\n}; f"
	case 7:
		return "trap " + quote(script) + " EXIT"
	case 8:
		return ": \"$(" + script + "\n)\""
	}
	return script
}

// evaluators are what may evaluate V, or the variable x that it is given to. ␤ is a newline.
var evaluators = strings.Split(strings.TrimSpace(`
declare x=V
declare -a x=V
declare -a "x"=V
declare -ax x=V
declare -ra x=V
declare -A x=V
declare -i x=V
declare -u x=V
declare -n x=V
declare x+=V
declare -a x+=V
declare -ga x=V
declare V
declare -a V
typeset x=V
typeset -a x=V
readonly x=V
readonly -a x=V
export x=V
export -a x=V
export -n x=V
export V
export -n V
export -f V
local -a x=V
builtin declare -a x=V
builtin export x=V
builtin declare -i x=V
builtin declare V
command readonly -a x=V
command typeset -a x=V
command declare -n x=V; : $x
x=V
x=V :
x=V declare -a x
x+=V
x[0]=V
x=(V)
x=([0]=V)
x=(V); x+=V
x=V; ((x))
x=V; : $((x))
x=V; : $[x]
x=V; : ${z[x]}
x=V; : ${z:x}
x=V; : ${z:0:x}
x=V; z[x]=1
x=V; z=([x]=1)
x=V; let x
x=V; let y=x+1
x=V; for ((x; 0; )); do :; done
x=V; declare -i z=x
x=V; [[ x -eq 0 ]]
x=V; test x -eq 0
x=V; [ "$x" -eq 0 ]
x=V; [ -v "$x" ]
x=V; : ${x@P}
x=V; : ${!x}
x=V; declare -a x
x=V; declare -i x
x=V; declare -a x="$x"
x=V; readonly -a x="$x"
x=V; export x="$x"
x=V; : {b[x]}>/dev/null
x=V; eval ": {b[x]}>/dev/null"
: {b[V]}>/dev/null
exec {b[V]}>/dev/null
read x <<<V
read -a x <<<V
read -r V <<<1
read -a V <<<1
read -t V x
read -n V x
read -u V x
read -p V x
mapfile x <<<V
mapfile V </dev/null
mapfile -C V -c 1 x <<<1
mapfile -n V x <<<1
mapfile -O V x <<<1
readarray -t V <<<1
printf -v x %s V
printf -v V x
printf %d V
printf %n V
printf '%(%F)T' V
printf V
getopts V x
getopts a V
getopts a x V
test V
test -v V
[ -v V ]
[ ! -v V ]
test -R V
test V -eq 0
test 0 -lt V
[ -t V ]
test x -a V
test V = x
[[ -v V ]]
[[ -R V ]]
[[ V -eq 0 ]]
[[ -t V ]]
[[ x == V ]]
[[ x =~ V ]]
unset V
unset -v V
unset -n V
wait V
wait -n V
wait -f V
wait -p V
wait -p x V
exit V
return V
while :; do break V; break; done
for z in 1; do continue V; done
shift V
set -- V
set V
set -o V
true V
: V
false V
echo V
cd V
pushd V
popd V
dirs V
jobs V
jobs -x V
disown V
ulimit -n V
ulimit -c V
umask V
type V
hash V
hash -p V z; z
help V
caller V
history V
history -s V
alias z=V; z
enable -f V z
bind -x V
complete -C V z
compgen -C V
compgen -W V
compgen -F V
trap V EXIT
trap -- V EXIT
trap V DEBUG; :
eval V
eval x=V
eval "x=V"
command eval V
builtin eval V
command V
builtin V
exec V
bash -c V
. V
source <(echo V)
PS4=V; set -x; :
for PS4 in V; do set -x; :; done
read PS4 <<<V; set -x; :
printf -v PS4 %s V; set -x; :
declare PS4=V; set -x; :
export PS4=V; bash -xc :
PROMPT_COMMAND=V
PS1=V; : ${PS1@P}
BASH_ENV=V bash -c :
ENV=V bash -c :
: ${x:=V}; ((x))
: ${x:=V}
: ${x:-V}
: ${z:V}
: ${z[V]}
: $((V))
: $[V]
((V))
let V
let x=V
z[V]=1
for z in V; do ((z)); done
select x in V; do ((x)); break; done <<<1
case V in V) : ;; esac
IFS=V; $IFS
IFS=V read -r x <<<1
LANG=V read -r x <<<1
TZ=V declare x=1
coproc V
cat <<<V
cat <<E␤V␤E
cat <<E␤$((x[V]))␤E
`), "\n")
