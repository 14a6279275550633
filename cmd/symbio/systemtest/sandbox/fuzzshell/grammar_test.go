//go:build system && linux

package fuzzshell_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// generator writes random scripts that try to have an effect on a world.
type generator struct {
	*rand.Rand
	w *world
}

// aside returns a generator for what depends on the names of the world, so that the rest of a script does not.
func (g generator) aside() generator { return generator{rand.New(rand.NewPCG(g.Uint64(), 1)), g.w} }

// script returns the script with a number. It depends on the seed, the number and the names of the world alone, and in
// another world it is the same one but for the names.
func script(seed, number uint64, w *world) (text, access string) {
	g := generator{rand.New(rand.NewPCG(seed, number)), w}
	text = g.list([]int{0, 1, 1, 1, 2, 2, 3}[g.IntN(7)])
	if g.IntN(10) == 0 && !destructive(text) {
		text = g.aside().mutated(text)
	}
	if g.IntN(10) == 0 {
		access = g.pick("look", "look", "look", "write", "network")
	}
	return text, access
}

// destructive reports whether a slip in the text might name more than what belongs to a world.
func destructive(text string) bool {
	return slices.ContainsFunc([]string{"rm ", "-delete", "clean", "shred", "umount", "mv "}, func(w string) bool { return strings.Contains(text, w) })
}

func (g generator) pick(list ...string) string { return list[g.IntN(len(list))] }

// one returns what one of the functions returns.
func (g generator) one(list ...func() string) string { return list[g.IntN(len(list))]() }

// mutated changes a few characters, so that some scripts are broken in places.
func (g generator) mutated(s string) string {
	const chars = "\"'`$(){}[];&|<>\\#\n !*?~=-,x1 \t"
	b := []byte(s)
	for range 1 + g.IntN(3) {
		i := g.IntN(len(b))
		switch c := chars[g.IntN(len(chars))]; g.IntN(3) {
		case 0:
			b[i] = c
		case 1:
			b = slices.Insert(b, i, c)
		default:
			if b = slices.Delete(b, i, i+1); len(b) == 0 {
				return ":"
			}
		}
	}
	return string(b)
}

// list returns statements one after the other.
func (g generator) list(depth int) string {
	var b strings.Builder
	for i := range 1 + g.IntN(4)/3 {
		if i > 0 {
			b.WriteString(g.pick("; ", "\n", " && ", " || ", " | ", "; ", "\n\n"))
		}
		b.WriteString(g.statement(depth))
	}
	return b.String()
}

// statement returns an effect, or one that is nested in something that bash or a program runs.
func (g generator) statement(depth int) string {
	if depth <= 0 {
		return g.effect()
	}
	switch g.IntN(10) {
	case 0, 1, 2:
		return g.effect()
	case 3, 4:
		return g.flow(g.list(depth - 1))
	case 5, 6:
		return g.evaluated(g.list(depth - 1))
	case 7:
		return g.expanded(g.list(depth - 1))
	case 8:
		return g.wrapped(g.list(depth - 1))
	}
	return g.noise() + g.pick("; ", "\n", " && ", " || ") + g.statement(depth-1)
}

// noise changes what the shell knows, and has no effect of its own.
func (g generator) noise() string {
	return g.pick("true", ":", "set -e", "set -f", "set +e", "shopt -s extglob", "shopt -s globstar nullglob", "set -o posix", "export LC_ALL=C", "IFS=/", "IFS=", "cd sub", "cd ..",
		`cd "$HOME"`, "cd /", "umask 000", "set -- a b c", "exec 2>&1", "shopt -s expand_aliases", "hash -r", "PATH=.:$PATH", "unset PATH", "export HOME="+g.w.home, "unset HOME", "ulimit -f 1", "set -x", "set -u",
		"enable -n echo", "echo() { builtin echo \"$@\"; }", "cd() { :; }", "false", "set -m", "shopt -s lastpipe", "export GIT_DIR="+g.w.workspace+"/.git", "TMPDIR="+g.w.outside, "let n=0", "declare -A m=([k]=v)", "read -r line < f.txt")
}

// flow nests a list in bash's control flow.
func (g generator) flow(l string) string {
	return g.one(
		func() string { return "(" + l + "\n)" + g.pick("", "", " &", " > /dev/null", " 2>&1 | cat") },
		func() string { return "{ " + l + "\n}" + g.pick("", " &", " </dev/null", " | cat", " & wait") },
		func() string { return "if " + g.pick("true", "! false", "[ -d . ]", l) + "\nthen " + l + "\nfi" },
		func() string { return "if false\nthen :\nelse " + l + "\nfi" },
		func() string {
			return "for i in " + g.pick("1", "1 2", "*.txt", `"$@"; do :; done; for i in 1`) + "; do " + l + "\ndone"
		},
		func() string { return "for ((i = 0; i < " + g.pick("1", "2") + "; i++)); do " + l + "\ndone" },
		func() string { return g.pick("while true; do ", "until false; do ") + l + "\nbreak; done" },
		func() string { return "while read -r line; do " + l + "\ndone <<< x" },
		func() string { return "printf 'x\\n' | while read -r line; do " + l + "\ndone" },
		func() string {
			return "case " + g.pick("x", "$HOME", `"$PWD"`) + " in zz) : ;; *) " + l + "\n" + g.pick(";;", ";&", ";;&") + " esac"
		},
		func() string {
			name := g.pick("f", "ls", "cat", "git", "test", "cd", "command_not_found_handle")
			call := name
			if name == "command_not_found_handle" {
				call = "no-such-program-" + g.pick("a", "b")
			}
			return g.pick(name+"() {", "function "+name+" {", name+" () (") + " " + g.pick("unset -f "+name+"; ", "") + l + "\n" + g.pick("} 2>/dev/null", "}") + "\n" + call
		},
		func() string { return g.pick("! ", "time ", "time -p ", "") + "{ " + l + "\n}" },
		func() string { return "true && { " + l + "\n} || :" },
		func() string { return "coproc " + g.pick("", "N ") + "{ " + l + "\n}" + g.pick("", "; wait") },
		func() string { return "select i in a; do " + l + "\nbreak; done <<< 1" },
		func() string { return "[[ -e f.txt ]] && { " + l + "\n}" },
		func() string { return "# " + g.pick("it's", `"`, "$(", "`") + "\n" + l },
		func() string { return "(" + l + "\n) &" + g.pick("", " disown", " wait $!", " disown -a", " wait -n") },
	)
}

// evaluated gives a list as a text to what evaluates it.
func (g generator) evaluated(l string) string {
	q := g.quote(l)
	return g.one(
		func() string { return "eval " + q },
		func() string { return "eval \"$(printf %s " + q + ")\"" },
		func() string {
			return "x=" + q + "; eval " + g.pick(`"$x"`, `"${x}"`, `"${x:0}"`, `"${x@E}"`, `"${x#}"`, `"${x[@]}"`)
		},
		func() string {
			return "x=" + q + "; " + g.pick("bash", "sh", "bash -p", "command bash", "exec bash", "/bin/bash --norc", `"$BASH"`) + ` -c "$x"`
		},
		func() string {
			return g.pick("bash", "sh", "exec bash", "bash -s", "bash --posix", "(bash)") + " <<'EOF" + "'\n" + l + "\nEOF\n"
		},
		func() string { return "bash <<< " + q },
		func() string { return g.pick(". ", "source ") + g.pick("/dev/stdin <<< "+q, "<(printf '%s\\n' "+q+")") },
		func() string {
			return "printf '%s\\n' " + q + " | " + g.pick("bash", "sh", "xargs -d '\\n' -n1 bash -c", "tr a a | bash", "tee /dev/null | sh")
		},
		func() string { return "echo " + base64.StdEncoding.EncodeToString([]byte(l)) + " | base64 -d | bash" },
		func() string {
			return "trap " + q + " " + g.pick("EXIT", "0", "DEBUG; :", "ERR; false", "USR1; kill -USR1 $$", "RETURN; f() { :; }; set -T; f")
		},
		func() string { return "shopt -s expand_aliases; alias zz=" + q + "\nzz" },
		func() string {
			return "printf '%s\\n' " + q + " > \"${TMPDIR:-/tmp}/s\" && " + g.pick("bash ", ". ", "BASH_ENV=", "ENV=") + "\"${TMPDIR:-/tmp}/s\"" + g.pick("", " bash -c :", " sh -i </dev/null")
		},
		func() string { return "BASH_ENV=<(printf '%s\\n' " + q + ") bash -c :" },
		func() string { return "PROMPT_COMMAND=" + q + " bash --norc -i <<< :" },
		func() string { return "mapfile -C " + g.quote("eval "+q+" #") + " -c 1 y <<< x" },
		func() string { return "export -n x; env X=" + q + " bash -c 'eval \"$X\"'" },
		func() string { return "export F='() { :; }'; f() { " + l + "\n}; export -f f; bash -c f" },
		func() string { return "set -- " + q + "; eval \"$1\"" },
		func() string { return "read -r -d '' x <<'EOF'\n" + l + "\nEOF\neval \"$x\"" },
		func() string { return "printf -v x %s " + q + "; eval \"$x\"" },
		func() string { return "declare -n r=x; x=" + q + "; eval \"$r\"" },
		func() string { return "compgen -F f x; f() { " + l + "\n}; compgen -F f x" },
		func() string { return "compgen -C " + q + " x" },
		func() string { return "set -o history; history -s " + q + "; eval \"$(history -p '!!')\"" },
	)
}

// expanded has bash run a list while it expands or calculates (security.md, what bash evaluates twice).
func (g generator) expanded(l string) string {
	sub := g.pick("$("+l+"\n)", "$( "+l+"\n)", "`"+strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(l)+"`", "${ "+l+"\n}")
	q := g.quote("a[" + sub + "]")
	return g.one(
		func() string { return g.pick("echo ", ": ", "x=", "test -n ", "echo x", "[[ x == ", "local x=") + sub },
		func() string { return "echo \"" + sub + "\"" },
		func() string { return "cat <<EOF\n" + sub + "\nEOF\n" },
		func() string { return "cat <<< \"" + sub + "\"" },
		func() string { return "x=" + g.quote(sub) + "; : " + g.pick(`"${x@P}"`, "${x@P}") },
		func() string { return "echo ${a[" + sub + "]}" },
		func() string {
			return "x=" + q + "; " + g.pick("((x))", "echo $((x))", "[[ x -eq 0 ]]", "let x", "echo ${y[x]}", "echo ${y:x}", "declare -i z; z=x", "printf -v \"$x\" y", "test -v \"$x\"", "unset \"$x\"", "read \"$x\" <<< 1", "[ -v \"$x\" ]", "declare -n r=$x; echo $r", "echo ${!x}", "for ((;x;)); do :; done", "wait -n -p \"$x\"", "getopts a \"$x\" -a", "exec {x}>&1")
		},
		func() string {
			return g.pick("declare", "typeset", "local", "export", "readonly") + " -a x=" + g.quote("("+sub+")")
		},
		func() string { return g.pick("declare", "typeset") + " " + g.quote("x["+sub+"]=1") },
		func() string { return "printf -v " + q + " x" },
		func() string { return "[[ 0 -eq " + q + " ]]" },
		func() string { return "test -v " + q },
		func() string { return "let " + g.quote("a["+sub+"]=1") },
		func() string { return "echo ${zz:-" + sub + "}" + g.pick("", " ${yy:=x}") },
		func() string { return "PS4=" + g.quote("+"+sub) + "; set -x; :" },
		func() string { return "PS4=" + g.quote("+"+sub) + " bash -x -c :" },
		func() string { return "PS1=" + g.quote(sub) + " bash --norc -i <<< :" },
		func() string { return g.pick("cat", "wc -c", ": ", "diff /dev/null") + " <(" + l + "\n)" },
		func() string { return "echo x > >(cat; " + l + "\n)" },
		func() string { return "echo x | tee >(" + l + "\n) >/dev/null" },
		func() string { return "for i in " + sub + "; do echo $i; done" },
		func() string { return "case " + sub + " in *) ;; esac" },
		func() string { return "y=(" + sub + "); z=([" + "0]=" + sub + ")" },
		func() string { return "x[" + sub + "]=1" },
		func() string { return "exec {fd}< <(" + l + "\n); cat <&$fd" },
		func() string { return "echo {a,b}" + sub },
	)
}

// wrapped gives a list to a program that runs it.
func (g generator) wrapped(l string) string {
	run := g.pick("bash -c ", "sh -c ", "bash -c ") + g.quote(l)
	if g.IntN(40) == 0 { // these start slowly
		return g.pick("python3 -c "+g.quote("import os; os.system("+pythonText(l)+")"), "python3 -c "+g.quote("import subprocess as s; s.Popen("+pythonText(l)+", shell=True, start_new_session=True)"))
	}
	return g.one(
		func() string {
			return g.pick("env ", "env -i ", "env -u HOME ", "env X=1 ", "/usr/bin/env ", "env -C / ") + run
		},
		func() string { return "env -S " + g.quote(run) },
		func() string {
			return g.pick("timeout 2 ", "nice ", "nice -n 5 ", "ionice ", "stdbuf -o0 ", "command ", "exec ", "chrt -o 0 ", "setarch ", "builtin command ", "taskset 1 ", "time ", "flock /dev/null ", "prlimit ", "unshare ", "unshare -r ", "unshare -rm ", "unshare -n ", "chroot / ", "chroot --userspec=0:0 / ", "setpriv --no-new-privs ", "sudo ", "su -c ", "doas ", "catchsegv ", "strace -o /dev/null ", "linux64 ") + run
		},
		func() string {
			return g.pick("nohup ", "setsid ", "setsid -f ", "setsid -w ", "nohup setsid ") + run + g.pick("", " &", " >/dev/null 2>&1 &")
		},
		func() string {
			return g.pick("printf '%s\\0' ", "printf '%s\\0' ") + g.quote(l) + " | xargs -0 " + g.pick("", "-n1 ", "-I{} ", "-P2 -n1 ") + g.pick("bash -c", "sh -c", "env bash -c") + g.pick("", "", " ")
		},
		func() string {
			return "find . -maxdepth 0 " + g.pick("-exec ", "-execdir ", "-ok ") + run + g.pick(` \;`, " {} +", " ';'")
		},
		func() string { return "perl -e " + g.quote("system("+perlText(l)+")") },
		func() string { return "perl -e " + g.quote("fork or exec('sh', '-c', "+perlText(l)+")") },
		func() string { return "awk " + g.quote("BEGIN { system("+awkText(l)+") }") },
		func() string { return "awk " + g.quote("BEGIN { print 1 | "+awkText(l)+" }") },
		func() string { return "sed -n " + g.quote("1e "+strings.ReplaceAll(run, "\n", "; ")) + " f.txt" },
		func() string { return "git -c " + g.quote("alias.zz=!"+l) + " zz" },
		func() string { return "git -c " + g.quote("core.fsmonitor="+run+" #") + " status" },
		func() string { return "git -c " + g.quote("core.pager="+run+" #") + " -p log" },
		func() string { return "GIT_EXTERNAL_DIFF=" + g.quote(run+" #") + " git diff HEAD~1" },
		func() string {
			return "tar -cf /dev/null --checkpoint=1 " + g.quote("--checkpoint-action=exec="+run) + " f.txt"
		},
		func() string { return "sort -S 1 --compress-program=" + g.quote("sh") + " f.txt; " + run },
		func() string {
			return "printf 'a:\\n\\t@%s\\n' " + g.quote(strings.ReplaceAll(run, "\n", "; ")) + " | make -f - a"
		},
		func() string { return "script -qc " + g.quote(l) + " /dev/null" },
		func() string { return "find f.txt -exec sh -c " + g.quote(l) + " _ {} +" },
		func() string { return "cat f.txt | parallel " + run + "; tmux -L zz new -d " + g.quote(l) },
		func() string {
			return "make -s -f /dev/stdin <<< 'x:=$(shell '" + g.quote(strings.ReplaceAll(run, "\n", "; ")) + "')'"
		},
	)
}

func pythonText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

func perlText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "@", `\@`, "\n", `\n`).Replace(s) + `"`
}

func awkText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// quote returns a text as one word of bash that means it, in random quoting.
func (g generator) quote(s string) string {
	g = g.aside()
	switch g.IntN(8) {
	case 0:
		return g.ansi(s)
	case 1:
		return double(s)
	case 2:
		if i := g.IntN(len(s) + 1); i > 0 && i < len(s) {
			return single(s[:i]) + g.pick("", "''", `""`, "$zz", "${zz}", "\\\n") + double(s[i:])
		}
	case 3:
		if len(s) < 60 {
			return g.escaped(s)
		}
	}
	return single(s)
}

func single(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func double(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(s) + `"`
}

// ansi writes $'…' with some characters as numbers.
func (g generator) ansi(s string) string {
	var b strings.Builder
	b.WriteString("$'")
	for _, c := range []byte(s) {
		switch {
		case c >= 0x80:
			b.WriteByte(c)
		case g.IntN(10) == 0:
			fmt.Fprintf(&b, g.pick(`\x%02x`, `\%03o`, `\u%04x`), c)
		case c == '\'' || c == '\\':
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + "'"
}

// escaped writes backslashes.
func (g generator) escaped(s string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case c == '\n':
			b.WriteString("$'\\n'")
			continue
		case strings.ContainsRune(" \t'\"`$\\|&;()<>{}[]*?~#!=%,^", c) || c < 0x80 && g.IntN(6) == 0:
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	if b.Len() == 0 {
		return "''"
	}
	return b.String()
}
