package shell

import "mvdan.cc/sh/v3/syntax"

// operates reports whether an expansion is more than $X or ${X}. It lists all of syntax.ParamExp.
func operates(p *syntax.ParamExp) bool {
	return p.Excl || p.Length || p.Width || p.IsSet || p.Flags != nil || p.NestedParam != nil || p.Index != nil ||
		len(p.Modifiers) > 0 || p.Slice != nil || p.Repl != nil || p.Names != 0 || p.Exp != nil || p.Split != 0 || p.GlobSubst != 0 || p.RcExpand != 0
}

// param adds the value of a variable, which only the shell knows.
func (b *builder) param(p *syntax.ParamExp, quoted bool) {
	name := ""
	if p.Param != nil {
		name = p.Param.Value
	}
	switch {
	case operates(p):
		b.operators(p)
	case name == "?" || name == "#": // both are numbers
		b.value.unknown()
		return
	case name == "@" || name == "*" || name == "_" || name == "IFS" || name == "BASH_COMMAND" || name == "":
		// Their values depend on the arguments of the shell, or on the command before. $IFS is a
		// common way to hide a blank.
		b.doubt("it uses $" + name)
	}
	b.value.unknown()
	b.value.split = b.value.split || !quoted || name == "@"
}

// operators walks what ${…} may evaluate, and adds no text. Subscripts and slices are arithmetic,
// which can run commands; @P expands the value again; := sets the variable. So each of them is a Problem but for a part or
// the length of a variable, or a plain text instead of it.
func (b *builder) operators(p *syntax.ParamExp) {
	b.runs("it changes a variable's value while using it (${…})")
	b.wordsIn(p, b.scope)
}
