package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// look finds what command i does beyond running its program.
func (a *analysis) look(i int, s *scope) {
	c := &a.program.Commands[i]
	name, args := c.Name(), c.Words[1:]
	if c.Words[0].Text == name && a.builtin(i, name, args, s) {
		return
	}
	a.wrapped(i, name, args, s)
	a.interpreted(i, name, s)
}

// builtin handles what the shell itself does. done is false for what is no builtin.
func (a *analysis) builtin(i int, name string, args []Word, s *scope) (done bool) {
	c := &a.program.Commands[i]
	switch name {
	case "true", "false", ":", "exit", "return", "break", "continue":
		c.Free = c.Literal() && len(c.Env) == 0
	case "wait":
		a.sets(c, name, args)
		c.Free = c.Literal() && len(c.Env) == 0 && !slices.ContainsFunc(args, func(w Word) bool { return w.MayBeOption() && !w.Is("-n") && !w.Is("-f") })
	case "[", "test":
		c.Free = len(c.Env) == 0 && (c.Literal() && Guard(*c, 1) == "" || comparison(name, args))
	case "set":
		a.set(c, args)
	case "cd":
		a.cd(args, s)
	case "pushd", "popd":
		s.dirs.Unknown = true
	case "eval":
		a.eval(i, args, s)
	case "trap":
		a.trap(i, args, s)
	case "alias", "bind", "complete", "compgen", "compopt", "enable", "fc", "history", "shopt", "unalias":
		a.runs(name + " changes what commands mean or runs some")
	case "hash":
		for _, w := range args {
			if w.MayBeOption() && !w.Is("-r") {
				a.runs("hash says which file a command means")
			}
		}
	case "source", ".":
		c.Unread = true
		s.dirs.Unknown = true
	case "unset":
		for _, w := range args {
			if w.Dynamic || strings.Contains(w.Text, "[") {
				a.runs("unset may evaluate what it is given")
			} else if !strings.HasPrefix(w.Text, "-") {
				a.assign(w.Text)
			}
		}
	case "read", "mapfile", "readarray", "getopts", "printf", "local", "export", "declare", "typeset", "readonly", "nameref", "let":
		a.sets(c, name, args)
	case "exec":
		if len(args) == 0 {
			c.Free = true // only its redirections count
			return true
		}
		return false
	default:
		return false
	}
	return true
}

// comparison reports whether a test has as many words as make its operator certain, so that what only the
// shell knows is nothing but compared.
func comparison(name string, args []Word) bool {
	if name == "[" {
		if len(args) == 0 || !args[len(args)-1].Is("]") {
			return false
		}
		args = args[:len(args)-1]
	}
	for _, w := range args {
		if w.Split || w.Dynamic && strings.ContainsAny(w.Pattern, string([]rune{AnyName, AnyRune})) && w.Prefix() == "" {
			return false
		}
	}
	if len(args) > 1 && args[0].Is("!") {
		args = args[1:]
	}
	is := func(w Word, operators string) bool {
		return !w.Dynamic && w.Text != "" && strings.Contains(" "+operators+" ", " "+w.Text+" ")
	}
	switch len(args) {
	case 1:
		return true
	case 2:
		return is(args[0], "-n -z -e -f -d -r -w -x -s -L -h -p -S -b -c -g -u -k -O -G -N")
	case 3:
		return is(args[1], "= == != -eq -ne -lt -le -gt -ge -nt -ot -ef")
	}
	return false
}

// set is free when it only makes the shell stricter or quieter.
func (a *analysis) set(c *Command, args []Word) {
	option := false
	for _, w := range args {
		switch {
		case w.Dynamic:
			a.runs("only the shell knows how set changes it")
			return
		case option:
			option = false
			if !w.Is("pipefail") && !w.Is("errexit") && !w.Is("nounset") && !w.Is("xtrace") && !w.Is("noglob") {
				a.runs("set changes how the shell reads commands")
				return
			}
		case len(w.Text) > 1 && strings.ContainsAny(w.Text[:1], "+-") && strings.Trim(w.Text[1:], "euxfo") == "":
			option = strings.Contains(w.Text, "o")
			if option && !strings.HasSuffix(w.Text, "o") {
				a.runs("set changes how the shell reads commands")
				return
			}
		default:
			a.runs("set changes the shell's arguments")
			return
		}
	}
	c.Free = len(args) > 0 && len(c.Env) == 0
}

func (a *analysis) cd(args []Word, s *scope) {
	for len(args) > 0 && (args[0].Is("-P") || args[0].Is("-L") || args[0].Is("--") || args[0].Is("-e") || args[0].Is("-@")) {
		if !args[0].Is("--") && !args[0].Is("-L") {
			s.dirs.Unknown = true
		}
		args = args[1:]
	}
	switch {
	case len(args) == 0:
		s.dirs = union(s.dirs, Dirs{Paths: []string{"~"}})
	case len(args) > 1 || args[0].Split:
		s.dirs.Unknown = true
	default:
		s.dirs = s.dirs.enter(args[0])
	}
}

func (a *analysis) eval(i int, args []Word, s *scope) {
	var texts []string
	for _, w := range args {
		if w.Dynamic {
			a.runs("only the shell knows what it gives eval to run")
			return
		}
		if w.Tilde { // the home's path is read once more, behind what is before it
			a.runs("only the shell knows what ~ is when eval reads it")
		}
		texts = append(texts, w.Text)
	}
	if len(texts) > 0 && texts[0] == "--" {
		texts = texts[1:]
	}
	inner := s.clone()
	inner.inner, inner.outer, inner.at = true, i, 1
	a.text(strings.Join(texts, " "), syntax.LangBash, inner)
	s.dirs = union(s.dirs, inner.dirs)
}

func (a *analysis) trap(i int, args []Word, s *scope) {
	at := 1
	if len(args) > 0 && args[0].Is("--") {
		args, at = args[1:], 2
	}
	switch {
	case len(args) == 0 || args[0].Is("-p") || args[0].Is("-l") || args[0].Is("-") || args[0].Is(""):
		return
	case args[0].MayBeOption():
		a.runs("only the shell knows what it gives trap to run")
		return
	}
	a.trapped = true
	late := s.clone()
	late.dirs = Dirs{Paths: s.dirs.Paths, Unknown: true} // it runs later, wherever the shell is then
	a.script(i, at, args[0], syntax.LangBash, late)
}

// sets notes the variables that a builtin sets. Names with a subscript are arithmetic, which may run
// commands.
func (a *analysis) sets(c *Command, name string, args []Word) {
	valued := map[string]string{"read": "adnNptui", "mapfile": "dnOsuCc", "readarray": "dnOsuCc", "printf": "v", "wait": "p"}[name]
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case w.Dynamic && (name == "printf" && i > 0 || name == "wait"):
		case w.Dynamic && name == "printf" && !w.MayBeOption():
		case w.Dynamic && !w.Split && strings.Contains(w.Prefix(), "="):
			target, _, _ := strings.Cut(w.Prefix(), "=")
			a.name(name, target)
		case w.Dynamic:
			a.runs("only the shell knows which variable " + name + " sets")
			return
		case (name == "printf" || name == "wait") && !strings.HasPrefix(w.Text, "-"):
			if name == "printf" {
				return
			}
		case w.Text == "--":
			if name == "printf" {
				return
			}
		case strings.HasPrefix(w.Text, "-") && valued != "":
			letter := strings.IndexAny(w.Text, valued)
			if letter < 1 {
				continue
			}
			value := w.Text[letter+1:]
			if value == "" && i+1 < len(args) {
				i++
				value = args[i].Text
			}
			switch w.Text[letter] {
			case 'C', 'c':
				a.runs(name + " runs what it is given")
			case 'a', 'v', 'p':
				if name != "read" || w.Text[letter] == 'a' {
					a.name(name, value)
				}
			}
		case name == "getopts" && i == 0, strings.HasPrefix(w.Text, "-") && name != "let":
		case name == "let":
			if strings.Trim(w.Text, "0123456789+-*/ ()<>=!&|%") != "" {
				a.runs("let calculates with something that is no number, which may run commands")
			}
		default:
			target, _, _ := strings.Cut(w.Text, "=")
			a.name(name, target)
		}
	}
}

func (a *analysis) name(builtin, name string) {
	if !syntax.ValidName(name) {
		a.runs(builtin + " is given something that is no variable's name, which may run commands")
		return
	}
	a.assign(name)
}
