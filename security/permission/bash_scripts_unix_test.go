//go:build unix

package permission_test

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// generator writes random scripts.
type generator struct{ *rand.Rand }

func (g generator) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g generator) script() string {
	switch g.IntN(10) {
	case 0, 1, 2:
		return g.soup()
	case 3:
		return g.mutate(g.list(3))
	default:
		return g.list(3)
	}
}

// soup is tokens without any order.
func (g generator) soup() string {
	var b strings.Builder
	for range 1 + g.IntN(10) {
		b.WriteString(tokens[g.IntN(len(tokens))])
		b.WriteString(g.pick("", " ", " ", " ", "\n", ";", "\\\n", "\t"))
	}
	return b.String()
}

var tokens = strings.Split("ok evil rm git log echo cat ' \" ` $( ) { } ; \\ # <<EOF EOF <<'EOF' <<-EOF \n > >> OUT okfile $x x=1 x=evil \"$x\" ${x} $'\\x65vil' $'ok' if then fi else do done case in esac [[ ]] (( )) function () & ! time coproc eval exec command builtin trap EXIT <( >( {ok,evil} {a,b} * ? ~ -c sh bash env timeout\x005 xargs select <<< &> >& 2>&1 {fd}> <> |& ;; ;& $(( 1+2 a[ ] ${ :- @P || && | for while until i \\\n ok\x00a 'ok' \"ok\" ok\\ \\\\ \"\\\"\" '\\'' $ $$ $? ${#x} \x00 =evil ,evil} {evil, -n -- 0 1 9 # \t ok; evil; ok# $\"ok\" ~+ ../OUT d cd\x00d cd\x00.. !ok {  }; ( !( @( +( [ ] -f set\x00-e declare export read x y unset : . source return exit break hash alias ok=evil;", " ")

// mutate changes a few characters.
func (g generator) mutate(s string) string {
	const chars = "\"'`$(){}[];&|<>\\#\n !*?~=-,x1 \t"
	b := []byte(s)
	for range 1 + g.IntN(3) {
		if len(b) == 0 {
			break
		}
		i := g.IntN(len(b))
		switch c := chars[g.IntN(len(chars))]; g.IntN(3) {
		case 0:
			b[i] = c
		case 1:
			b = slices.Insert(b, i, c)
		default:
			b = slices.Delete(b, i, i+1)
		}
	}
	return string(b)
}

func (g generator) list(depth int) string {
	var b strings.Builder
	for i := range 1 + g.IntN(3) {
		if i > 0 {
			b.WriteString(g.pick("; ", "\n", " && ", " || ", " | ", " & ", " |& ", ";", "\n\n", " ;\\\n"))
		}
		b.WriteString(g.statement(depth))
	}
	return b.String()
}

func (g generator) statement(depth int) string {
	if depth <= 0 || g.IntN(3) > 0 {
		return g.simple(depth)
	}
	l := func() string { return g.list(depth - 1) }
	switch g.IntN(22) {
	case 0:
		return "(" + l() + ")" + g.redirect(depth)
	case 1:
		return "{ " + l() + "\n}" + g.redirect(depth)
	case 2:
		return "if " + l() + "; then " + l() + g.pick("", "; else "+l(), "; elif "+l()+"; then "+l()) + "\nfi"
	case 3:
		return g.pick("while ", "until ") + l() + "; do " + l() + "; break; done"
	case 4:
		return "for " + g.pick("i", "x", "ok") + " in " + g.words(depth) + "; do " + l() + "; done"
	case 5:
		return "case " + g.word(depth) + " in " + g.word(depth) + ") " + l() + ";; " + g.pick("*", "a|b", "(ok") + ") " + l() +
			g.pick(" ;;", " ;&", " ;;&", "\n") + " esac"
	case 6:
		return "! " + l()
	case 7:
		return "time " + g.pick("", "-p ") + l()
	case 8:
		return g.pick("ok", "evil", "f", "git") + "() { " + l() + "\n}"
	case 9:
		return "[[ " + g.word(depth) + g.pick(" == ", " != ", " < ", " =~ ", " -eq ", " -nt ") + g.word(depth) + " ]]"
	case 10:
		return "(( " + g.pick("1+2", "x", "x=1", "a[$("+l()+")]", "1 ? 2 : 3", "0x1") + " ))"
	case 11:
		return "cat <<" + g.pick("EOF", "'EOF'", "\"EOF\"", "-EOF", "E\\OF") + g.pick("", "; "+g.simple(0), " | "+g.simple(0)) + "\n" +
			g.pick("", "\t") + g.word(depth) + " " + g.word(depth) + "\n" + g.pick("", "\t", "") + "EOF\n"
	case 12:
		return "coproc " + g.simple(0)
	case 13:
		return g.pick("eval ", "trap ", "bash -c ", "sh -c ", "command ", "exec ") + g.pick(quote(l()), g.words(depth)) +
			g.pick("", " EXIT")
	case 14:
		return l() + " # " + g.pick("x", "'", "\"", "`", "$(", "x \\", "\\") + "\n" + g.simple(0)
	case 15:
		return "find . " + g.pick("-name x ", "") + "-exec " + g.words(0) + " {} " + g.pick("\\;", "+", "';'")
	case 16:
		return g.pick("x=", "y=", "export x=", "export y=", "read -r x <<<", "x=1 y=") + g.word(depth) +
			g.pick("; ", " && ", "\n", " | ") + l()
	case 17:
		return g.pick("", "", "echo "+g.word(depth)+" | ") + g.pick("while ", "while IFS= ", "until ! ") + "read " +
			g.pick("-r ", "", "-ra ") + g.pick("x", "y", "x y", "ok") + "; do " + l() + "; done" + g.pick("", "", " <<<"+g.word(depth))
	case 18:
		return g.pick("ok", "echo", "cat", "git log", "env", "timeout 5", "xargs", "find .", "test -n", "printf", "sh -c", "eval", "$x") +
			" " + g.pick(`"$x"`, "$x", `"a$x"`, `"${x##*/}"`, "${x%.*}", `"$y" "$x"`, `"-$x"`, "-s $x 5 ok", "-u $x ok", `-I "$x" ok a`,
			`-n "$x" ok`, "-name $x -exec ok {} +")
	case 19:
		return g.pick("export ", "declare ", "declare -x ", "readonly ", "local ") + g.pick("x=", "LANG=", "y=") + g.word(depth)
	}
	return g.pick("x=", "LANG=", "x+=", "a[0]=") + g.word(depth)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (g generator) simple(depth int) string {
	var b strings.Builder
	if g.IntN(8) == 0 {
		b.WriteString(g.pick("LANG=C ", "x=evil ", "TZ="+g.word(depth)+" ", "LC_ALL=C "))
	}
	if g.IntN(6) == 0 {
		b.WriteString(g.pick("command ", "env ", "env LANG=C ", "env -i ", "timeout 5 ", "timeout -s KILL 5 ", "nice ", "nice -n 3 ",
			"xargs ", "xargs -n1 ", "builtin ", "nohup ", "command -p ", "env -u x ", "exec ", "eval ", "env -S ", "xargs -I{} "))
	}
	b.WriteString(g.pick("ok", "ok", "ok", "echo", "echo", "git log", "cat", "evil", "rm", "'ok'", `o\k`, `"ok"`, "$x", "{ok,evil}", "o''k",
		"$'ok'", "true", "cd d", "cd ..", ":", "test", "printf", "git"))
	if g.IntN(4) > 0 {
		b.WriteString(" " + g.words(depth))
	}
	if g.IntN(5) == 0 {
		b.WriteString(g.redirect(depth))
	}
	return b.String()
}

func (g generator) redirect(depth int) string {
	if g.IntN(3) > 0 {
		return ""
	}
	return " " + g.pick("", "", "1", "2", "0", "{fd}", "3") + g.pick(">", ">>", "<", ">|", "<>", ">&", "&>", "&>>", "<&", "<<< ") +
		g.pick("", " ") + g.pick("okfile", "OUT", "../OUT", "d/okfile", "/dev/null", "&1", "2", "1", "$x", "ok{a,b}", "ok*", "\"okfile\"",
		g.word(depth))
}

func (g generator) words(depth int) string {
	var all []string
	for range g.IntN(4) {
		all = append(all, g.word(depth))
	}
	return strings.Join(all, g.pick(" ", " ", "  ", " \\\n", "\t"))
}

func (g generator) word(depth int) string {
	var b strings.Builder
	for range 1 + g.IntN(3) {
		b.WriteString(g.piece(depth))
		if g.IntN(2) == 0 {
			break
		}
	}
	return b.String()
}

func (g generator) piece(depth int) string {
	if depth > 0 && g.IntN(6) == 0 {
		inner := g.list(depth - 1)
		return g.pick("$("+inner+")", "\"$("+inner+")\"", "`"+strings.NewReplacer("`", "", `\`, `\\`).Replace(inner)+"`", "<("+inner+")",
			"${x:-$("+inner+")}", "\"a`"+strings.NewReplacer("`", "", `\`, `\\`, `"`, "").Replace(inner)+"`\"", "$( "+inner+"\n)",
			"\"${x:-"+g.word(0)+"}\"")
	}
	return g.pick("a", "b", "ok", "evil", "-n", "x y", "'a b'", `"a b"`, `a\ b`, `\;`, `\"`, `'"'`, `"'"`, "$x", `"$x"`, "${x}", "$1", "$?",
		"$((1+2))", "$(( 3 * 4 ))", "{a,b}", "{evil,ok}", "{1..3}", "a{b,c}d", "{a,{b,c}}", `{a\,b}`, "{a}", "{,a}", "*", "?", "[ab]", "~",
		"~/x", "a=b", "=", "%", "@", "+", `$'a\tb'`, `$'\x65vil'`, `$'\''`, `"\$x"`, `"\a"`, `\a`, `'\a'`, `"a\\"`, `'a\'`, "#", "a#b", "-",
		"--", ",", "^", "!", `"!"`, ":", "/", ".", "..", "''", `""`, "$", `"$"`, "a$", "]", "[", "}", "{", "a~b", `\~`, "a:~", "$$", "é",
		`\$x`, `"\""`, `"`+"\n"+`"`, "'\n'", "\\\n", "$'\\n'", "1", "2>", "{x", "x}", `"{a,b}"`, "$x$x", `a"b"'c'd`, "${x}y", "${x##*/}",
		`"${x##*/}"`, "${x%.*}", "${#x}", "${x:1:2}", "${x:-ok}", `"${y:+a b}"`, "${x#a?}", "$y", `"$y"`, "${PWD##*/}", "${x/a/b}",
		"${x#$y}", "${x%\"a\"}", "${x#}}", "${x:-{a,b}}", "${x:-~}", "${x:-*}")
}
