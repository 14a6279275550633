package community_test

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// testDecl is a declaration of the tests of a folder: a function, a type, a method, or a variable.
type testDecl struct {
	file *sourceFile
	name string // TestX or x.method
	key  string // folder.name; that of an exported method is its type's
	node ast.Node
	uses []string // keys of what it leads to outside of bubbles
	// clocks are the calls by which it uses the machine's clock outside of bubbles, with their places.
	clocks []string
	// reason is the way on which a test comes here outside of bubbles; "" if none does.
	reason string
}

// bubbleFinder tells what of the tests runs in bubbles of testing/synctest, by names: a function literal that is given to
// synctest.Test does, and with it what only such literals lead to. Whatever else a function that opens a bubble holds, such
// as a table of functions, counts as run in the bubble unless it is called or run outside. An exported method can be called
// wherever its type is used, an unexported one where its name is, too.
type bubbleFinder struct {
	decls   []*testDecl
	keyed   map[string][]*testDecl
	methods map[string][]string // keys of unexported methods, by folder.method
	objects map[any]bool        // the parser's objects of the declarations: all others are local names
	bubbles map[string]bool     // keys of functions that give synctest.Test a function that they are given
}

// outsideBubbles returns the declarations of tests whose code can run outside of bubbles.
func outsideBubbles(files []*sourceFile) []*testDecl {
	b := &bubbleFinder{keyed: map[string][]*testDecl{}, methods: map[string][]string{}, objects: map[any]bool{}, bubbles: map[string]bool{}}
	for _, f := range files {
		if f.isTest() {
			b.declare(f)
		}
	}
	for range 3 { // a helper may be one by the help of another
		for _, d := range b.decls {
			if f, ok := d.node.(*ast.FuncDecl); ok && b.runsInBubble(d, f) {
				b.bubbles[d.key] = true
			}
		}
	}
	for _, d := range b.decls {
		b.visit(d)
	}
	return b.reached()
}

func (b *bubbleFinder) declare(f *sourceFile) {
	add := func(name, key string, id *ast.Ident, n ast.Node) {
		d := &testDecl{file: f, name: name, key: path.Dir(f.path) + "." + key, node: n}
		b.decls, b.keyed[d.key], b.objects[id.Obj] = append(b.decls, d), append(b.keyed[d.key], d), true
	}
	for _, d := range f.parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			switch typ, name := receiverOf(d), d.Name.Name; {
			case typ == "":
				add(name, name, d.Name, d)
			case d.Name.IsExported():
				add(typ+"."+name, typ, d.Name, d)
			default:
				add(typ+"."+name, typ+"."+name, d.Name, d)
				method := path.Dir(f.path) + "." + name
				b.methods[method] = append(b.methods[method], path.Dir(f.path)+"."+typ+"."+name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					add(s.Name.Name, s.Name.Name, s.Name, s)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						add(id.Name, id.Name, id, s)
					}
				}
			}
		}
	}
}

// isBubble reports whether a call runs the functions that it is given in a bubble.
func (b *bubbleFinder) isBubble(d *testDecl, call *ast.CallExpr) bool {
	name := calledName(call)
	return name == "synctest.Test" || b.bubbles[path.Dir(d.file.path)+"."+name]
}

// runsInBubble reports whether a function uses functions that it is given in a bubble, and nowhere else.
func (b *bubbleFinder) runsInBubble(d *testDecl, f *ast.FuncDecl) bool {
	given := map[any]bool{}
	for _, p := range f.Type.Params.List {
		for _, id := range p.Names {
			if _, ok := p.Type.(*ast.FuncType); ok {
				given[id.Obj] = true
			}
		}
	}
	total, inside := 0, 0
	count := func(in ast.Node, n *int) {
		ast.Inspect(in, func(node ast.Node) bool {
			if id, ok := node.(*ast.Ident); ok && id.Obj != nil && given[id.Obj] {
				*n++
			}
			return true
		})
	}
	if f.Body == nil || len(given) == 0 {
		return false
	}
	count(f.Body, &total)
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok = ok && b.isBubble(d, call); ok {
			count(call, &inside)
		}
		return !ok
	})
	return total > 0 && inside == total
}

// visit finds what a declaration leads to outside of bubbles, and where it uses the clock there.
func (b *bubbleFinder) visit(d *testDecl) {
	opens, folder := false, path.Dir(d.file.path)
	ast.Inspect(d.node, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		opens = opens || ok && b.isBubble(d, call)
		return !opens
	})
	use := func(id *ast.Ident) {
		if id.Obj == nil || b.objects[id.Obj] {
			d.uses = append(d.uses, folder+"."+id.Name)
		}
	}
	var visit func(ast.Node) bool
	run := func(f ast.Expr) { // what is called or run here is run here
		switch f := f.(type) {
		case *ast.FuncLit:
			ast.Inspect(f.Body, visit)
		case *ast.Ident:
			use(f)
		}
	}
	visit = func(n ast.Node) bool {
		if call := clockUse(n); call != "" {
			d.clocks = append(d.clocks, d.file.position(n.Pos())+": "+call)
		}
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Body != nil {
				ast.Inspect(n.Body, visit)
			}
			return false
		case *ast.FuncLit, *ast.CompositeLit:
			return !opens
		case *ast.Ident:
			if !opens {
				use(n)
			}
		case *ast.KeyValueExpr:
			ast.Inspect(n.Value, visit) // a key is no use of what is called so
			return false
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Obj == nil && d.file.imports[x.Name] != "" {
				d.uses = append(d.uses, d.file.imports[x.Name]+"."+n.Sel.Name)
			}
			d.uses = append(d.uses, b.methods[folder+"."+n.Sel.Name]...)
			ast.Inspect(n.X, visit)
			return false
		case *ast.CallExpr:
			run(n.Fun)
			_, method, _ := strings.Cut(calledName(n), ".")
			if slices.Contains(words("Run Go Fuzz Check Cleanup"), method) {
				for _, a := range n.Args {
					run(a)
				}
			}
			if b.isBubble(d, n) {
				for _, a := range n.Args {
					if _, ok := a.(*ast.FuncLit); !ok && calledName(n) != "synctest.Test" {
						ast.Inspect(a, visit)
					}
				}
				return false
			}
		}
		return true
	}
	ast.Inspect(d.node, visit)
}

// reached returns what tests lead to outside of bubbles, and what packages for tests export.
func (b *bubbleFinder) reached() (all []*testDecl) {
	reason := map[string]string{}
	for _, d := range b.decls {
		f, ok := d.node.(*ast.FuncDecl)
		if ok && f.Recv == nil && (strings.HasPrefix(d.name, "Test") || strings.HasPrefix(d.name, "Fuzz") ||
			strings.HasPrefix(d.name, "Example") || f.Name.IsExported() && !strings.HasSuffix(d.file.path, "_test.go")) {
			reason[d.key] = d.name
		}
	}
	for more := true; more; {
		more = false
		for _, d := range b.decls {
			if reason[d.key] == "" {
				continue
			}
			for _, key := range d.uses {
				typ := strings.TrimSuffix(key, path.Ext(key)) // of a method: folder.type
				if reason[key] != "" || b.keyed[key] == nil || b.keyed[typ] != nil && reason[typ] == "" {
					continue
				}
				reason[key], more = reason[d.key]+" > "+strings.TrimPrefix(key, path.Dir(d.file.path)+"."), true
			}
		}
	}
	for _, d := range b.decls {
		if d.reason = reason[d.key]; d.reason != "" {
			all = append(all, d)
		}
	}
	return all
}

// calledName is how a call names what it calls: f, x.f, or .f for the method of an expression.
func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
		return "." + f.Sel.Name
	}
	return ""
}
