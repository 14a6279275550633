package shell

import (
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// operates reports whether an expansion is more than $X or ${X}. It lists all of syntax.ParamExp.
func operates(p *syntax.ParamExp) bool {
	return p.Excl || p.Length || p.Width || p.IsSet || p.Flags != nil || p.NestedParam != nil || p.Index != nil ||
		len(p.Modifiers) > 0 || p.Slice != nil || p.Repl != nil || p.Names != 0 || p.Exp != nil || p.Split != 0 || p.GlobSubst != 0 || p.RcExpand != 0
}

// param adds the value of a variable. Only those of loops are known; all others get a mark, and
// are recorded as used, for checkUses.
func (b *builder) param(p *syntax.ParamExp, quoted bool) {
	name := ""
	if p.Param != nil {
		name = p.Param.Value
	}
	operator := operates(p)
	switch {
	case operator:
		b.operators(p)
	case name == "@" || name == "*" || name == "_" || name == "IFS" || name == "BASH_COMMAND" || name == "":
		// Their values depend on the arguments of the shell, or on the command before. $IFS is a
		// common way to hide a blank.
		b.doubt("it uses $" + name)
	default:
		b.used = append(b.used, name)
	}
	if item, is := b.scope.vars[name]; is && !operator {
		b.item(item, quoted)
		return
	}
	switch name {
	// Both are numbers.
	case "?", "#":
		if !operator {
			b.unknown(AnyName)
			return
		}
	}
	b.unknown(Any)
	b.split = b.split || !quoted || name == "@"
}

// item adds the value of a loop's variable in this round. Unquoted, a value with blanks or
// pattern characters would be expanded once more, so it becomes unknown.
func (b *builder) item(item Word, quoted bool) {
	switch {
	case item.Tilde, item.Dynamic && item.Split:
		b.unknown(Any)
		b.split = b.split || !quoted
	case item.Dynamic:
		b.dynamic = true
		b.text.WriteString(item.Pattern)
		b.split = b.split || !quoted // a file's name may have blanks
	case !quoted && (item.Text == "" || strings.ContainsAny(item.Text, " \t\n*?[\\")):
		b.unknown(Any)
		b.split = true
	default:
		b.text.WriteString(item.Text)
	}
}

// operators walks what ${…} may evaluate, and adds no text. Subscripts and slices are arithmetic,
// which can run commands; @P expands the value again; := sets the variable.
func (b *builder) operators(p *syntax.ParamExp) {
	if !cuts(p) {
		b.doubt("it changes a variable's value while using it (${…})")
	}
	if p.Excl || p.Names != 0 || p.NestedParam != nil {
		b.runs("it uses a variable whose name is in another variable")
	}
	if p.Index != nil {
		if w, ok := p.Index.(*syntax.Word); !ok || len(w.Parts) != 1 || w.Lit() != "@" && w.Lit() != "*" {
			b.arithm(p.Index, b.scope)
		}
	}
	if p.Slice != nil {
		for _, x := range []syntax.ArithmExpr{p.Slice.Offset, p.Slice.Length} {
			if x != nil {
				b.arithm(x, b.scope)
			}
		}
	}
	if p.Repl != nil {
		for _, w := range []*syntax.Word{p.Repl.Orig, p.Repl.With} {
			b.alternative(w)
		}
	}
	if p.Exp == nil {
		return
	}
	b.alternative(p.Exp.Word)
	switch p.Exp.Op {
	case syntax.OtherParamOps:
		b.runs("it expands a variable's value again")
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if p.Param != nil {
			b.assign(p.Param.Value)
		}
	}
}

// plainPattern matches a pattern or default value inside ${…} that all shells read alike.
var plainPattern = regexp.MustCompile(`^[A-Za-z0-9_./*?:,=+@%^ -]*$`)

// cuts reports whether an expansion only returns the variable's length, a part of its value, or a
// plain text instead of it, as ${#X}, ${X:1:2}, ${X#p}, ${X%p} and ${X:-text} do.
func cuts(p *syntax.ParamExp) bool {
	// Whatever remains after the allowed operators are removed must be a plain variable.
	plain := *p
	plain.Length, plain.Exp, plain.Slice, plain.Repl = false, nil, nil, nil
	if p.Param == nil || !syntax.ValidName(p.Param.Value) || p.Repl != nil || operates(&plain) || p.Slice != nil && (!numeric(p.Slice.Offset) || p.Slice.Length != nil && !numeric(p.Slice.Length)) {
		return false
	}
	if p.Exp == nil {
		return true
	}
	switch p.Exp.Op {
	case syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix, syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		return p.Exp.Word == nil || plainPattern.MatchString(p.Exp.Word.Lit()) && p.Exp.Word.Lit() != ""
	}
	return false
}

// alternative walks a text inside ${…}; w may be nil. Quotes and substitutions there follow rules
// of their own, so they count as running something unknown.
func (b *builder) alternative(w *syntax.Word) {
	if w == nil {
		return
	}
	b.analysis.word(w, b.scope)
	for _, p := range w.Parts {
		if lit, is := p.(*syntax.Lit); !is || strings.Contains(lit.Value, `\\`) {
			b.runs("it holds quotes or substitutions inside ${…}")
			return
		}
	}
}
