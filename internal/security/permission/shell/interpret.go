package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"symbio/internal/security/lazyregexp"
)

// givesCode matches the options by which interpreters are given code.
var givesCode = lazyregexp.New(`^(-[a-zA-Z]*[cdeEoprRx]|--(eval|exec|execute|expression|command|print|one-line).*)`)

// interpreted adds the commands of a script that the command runs as a shell. Of programs that read another language, or run
// their arguments elsewhere, it keeps what they are given as Code.
func (v invocation) interpreted(name string) {
	c, s := v.command(), v.scope
	if language := programs().shells[name]; language != "" {
		v.shell(language)
		return
	}
	if !interprets(name) {
		return
	}
	behind, runs := programs().runners[name]
	if runs && len(behind) == 0 && len(c.Words) > 1 || slices.ContainsFunc(c.Words[1:], func(w Word) bool {
		return w.Dynamic && w.MayBeOption() || runs && slices.Contains(behind, w.Text) || !runs && givesCode().MatchString(w.Text)
	}) {
		c.Code = c.Rest()
	}
	c.Code += s.stdin
	given := slices.ContainsFunc(c.Words[1:], func(w Word) bool {
		return w.Dynamic || !strings.HasPrefix(w.Text, "-") && !strings.HasPrefix(w.Text, "/dev/") || w.Is("--version")
	})
	if s.piped && s.stdin == "" && !given || slices.ContainsFunc(c.Words[1:], func(w Word) bool { return strings.HasPrefix(w.Prefix(), "/dev/fd/") }) {
		v.analysis.runs(name + " runs what it reads from its input")
	}
}

// shell adds the commands that a shell runs: the text behind -c.
// For a script file it sets Unread. Whatever cannot be told becomes a Problem. lang is the language of the shell.
func (v invocation) shell(lang string) {
	words := v.command().Words[1:]
	at := slices.IndexFunc(words, func(w Word) bool { return w.Dynamic || !shellFlags().MatchString(w.Text) })
	commandText := slices.ContainsFunc(words[:max(at, 0)], func(w Word) bool { return strings.Contains(w.Text, "c") && !strings.HasPrefix(w.Text, "--") })
	switch {
	case at < 0 || words[at].Dynamic || strings.HasPrefix(words[at].Text, "-") || strings.HasPrefix(words[at].Text, "+") || words[at].Is("/dev/stdin"):
		v.analysis.runs("it cannot be told what " + v.command().Name() + " runs here")
		// Behind an option that is not known here may be a text.
		for j := max(at, 0); j < len(words); j++ {
			if !words[j].Dynamic {
				unsure := v
				unsure.scope.guessed = true
				unsure.script(1+j, words[j], syntax.LangBash)
			}
		}
	case !commandText:
		v.command().Unread = true // a file
	case lang == "posix": // sh may be bash or not: what both would read has to be right
		v.script(1+at, words[at], syntax.LangPOSIX)
		v.script(1+at, words[at], syntax.LangBash)
	default:
		if lang != "bash" {
			v.analysis.runs("it gives " + v.command().Name() + " a program that cannot be read here")
		}
		v.script(1+at, words[at], syntax.LangBash)
	}
}

// shellFlags matches the options of a shell that do not change how it reads, and the value of -o.
var shellFlags = lazyregexp.New(`^(-[ceuxl]+|-[ceuxl]*o|pipefail|--norc|--noprofile|--posix|--version|--help)$`)
