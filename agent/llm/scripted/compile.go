package scripted

import (
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
)

// compiler collects the templates of one script.
type compiler struct {
	set     *template.Template
	defined map[string]bool // names under define
}

func newCompiler(name string) *compiler {
	return &compiler{
		set:     template.New(name).Option("missingkey=error").Funcs(new(run).functions()),
		defined: map[string]bool{},
	}
}

// template compiles src under a name that is unique in the script, and remembers it in src.
func (c *compiler) template(src *source, name string) error {
	if !src.present() {
		return nil
	}
	t, err := template.New(name).Funcs(new(run).functions()).Parse(src.text)
	if err != nil {
		return fmt.Errorf("line %d: %s", src.line, strings.TrimPrefix(err.Error(), "template: "))
	}
	if len(t.Templates()) > 1 {
		return fmt.Errorf("line %d: %s: templates are defined under the script's key define, not inside a template", src.line, name)
	}
	src.name, src.same = name, true
	if t.Tree == nil { // nothing but white space inside
		t.Tree = &parse.Tree{Name: name, Root: &parse.ListNode{NodeType: parse.NodeList}}
	}
	written := ""
	for _, n := range t.Root.Nodes {
		n, ok := n.(*parse.TextNode)
		if src.same = src.same && ok; src.same {
			written += string(n.Text)
		}
	}
	if src.same {
		src.text = written // without comments, and trimmed as it asks for
	}
	m := meter{tick: action(name, "_tick"), show: action(name, "_show").Pipe.Cmds[0], defined: c.defined}
	if err := m.node(t.Root); err != nil {
		return fmt.Errorf("line %d: %s: %w", src.line, name, err)
	}
	t.Root.Nodes = append([]parse.Node{action(name, "_enter")}, t.Root.Nodes...)
	_, err = c.set.AddParseTree(name, t.Tree)
	return err
}

// action returns the node of a template's action that calls a function. Its errors name the template.
func action(name, function string) *parse.ActionNode {
	t := template.Must(template.New(name).Funcs(new(run).functions()).Parse("{{" + function + "}}"))
	return t.Root.Nodes[0].(*parse.ActionNode)
}

// meter changes a template so that it stays within bounds, of which text/template has none. Each
// loop's body begins with a call of _tick: a loop that neither writes nor calls could not be stopped
// otherwise. Each value that is written goes through _show, which refuses what is too long before it
// is made into text.
type meter struct {
	tick    parse.Node
	show    *parse.CommandNode
	defined map[string]bool
}

func (m *meter) node(n parse.Node) error {
	switch n := n.(type) {
	case *parse.ListNode:
		return m.list(n)
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 {
			n.Pipe.Cmds = append(n.Pipe.Cmds, m.show)
		}
	case *parse.RangeNode:
		if err := m.branches(&n.BranchNode); err != nil {
			return err
		}
		n.List.Nodes = append([]parse.Node{m.tick}, n.List.Nodes...)
	case *parse.IfNode:
		return m.branches(&n.BranchNode)
	case *parse.WithNode:
		return m.branches(&n.BranchNode)
	case *parse.TemplateNode:
		if !m.defined[n.Name] {
			return fmt.Errorf("no template %q under define", n.Name)
		}
	}
	return nil
}

func (m *meter) list(l *parse.ListNode) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := m.node(n); err != nil {
			return err
		}
	}
	return nil
}

func (m *meter) branches(b *parse.BranchNode) error {
	if err := m.list(b.List); err != nil {
		return err
	}
	return m.list(b.ElseList)
}
