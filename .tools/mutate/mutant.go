package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The kinds of mutants.
const (
	condition = "condition" // negated, == for !=, && for ||
	limit     = "limit"     // < for <=, an integer one more or one less
	ignored   = "error"     // not looked at, or not returned
	deleted   = "case"      // a case of a switch or select left out
	unlocked  = "lock"      // the lock of a function left out
)

// kinds are drawn as often as their weights say. A lock is left out least often: only the race
// detector sees that, whose tests take minutes.
var (
	kinds   = []string{condition, limit, ignored, unlocked, deleted}
	weights = []int{3, 2, 2, 1, 2}
)

// edit replaces the bytes of a file from start to end.
type edit struct {
	start, end int
	text       string
}

// mutant is one change of one file. before and after are the changed line, or what stands for it.
type mutant struct {
	area, file, kind, function string
	line                       int
	before, after              string
	edits                      []edit
}

// key names a mutant in files. It survives changes elsewhere in the file.
func (m mutant) key() string {
	return strings.Join([]string{m.file, m.function, m.before, m.after}, "\t")
}

// apply returns the source with the change.
func (m mutant) apply(source []byte) []byte {
	var out []byte
	last := 0
	for _, e := range m.edits {
		out = append(append(out, source[last:e.start]...), e.text...)
		last = e.end
	}
	return append(out, source[last:]...)
}

// draw returns all mutants of the packages in an area in a random order, in which the kinds have their weights.
func draw(area string, packages []goPackage, seed uint64) ([]mutant, error) {
	byKind := map[string][]mutant{}
	for _, p := range packages {
		if p.folder != area && !strings.HasPrefix(p.folder, area+"/") || strings.HasSuffix(p.folder, "test") {
			continue // packages named …test help the tests
		}
		for _, name := range p.GoFiles {
			found, err := findMutants(area, filepath.Join(p.folder, name))
			if err != nil {
				return nil, err
			}
			for _, m := range found {
				byKind[m.kind] = append(byKind[m.kind], m)
			}
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for _, kind := range kinds {
		list := byKind[kind]
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	var order []mutant
	for {
		var ballot []string
		for i, kind := range kinds {
			if len(byKind[kind]) > 0 {
				ballot = append(ballot, slices.Repeat([]string{kind}, weights[i])...)
			}
		}
		if len(ballot) == 0 {
			return order, nil
		}
		kind := ballot[random.IntN(len(ballot))]
		order = append(order, byKind[kind][0])
		byKind[kind] = byKind[kind][1:]
	}
}

// finder collects the mutants of one file.
type finder struct {
	area, file, function string
	source               []byte
	positions            *token.FileSet
	found                []mutant
	seen                 map[string]int
}

func findMutants(area, file string) ([]mutant, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f := &finder{area: area, file: file, source: source, positions: token.NewFileSet(), seen: map[string]int{}}
	tree, err := parser.ParseFile(f.positions, file, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(tree) {
		return nil, err
	}
	for _, decl := range tree.Decls {
		f.function = "-"
		fn, isFunc := decl.(*ast.FuncDecl)
		if isFunc {
			f.function = fn.Name.Name
			if fn.Recv != nil {
				f.function = f.text(fn.Recv.List[0].Type) + "." + fn.Name.Name
			}
			f.locks(fn)
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			f.visit(n, isFunc && returnsError(fn.Type))
			return true
		})
	}
	return f.found, nil
}

// visit adds the mutants of one node. The flag says whether the function around it returns an error.
func (f *finder) visit(n ast.Node, hasError bool) {
	switch n := n.(type) {
	case *ast.IfStmt:
		if text := f.text(n.Cond); strings.HasSuffix(text, "rr != nil") {
			f.replace(ignored, n.Cond, "false && ("+text+")")
		} else {
			f.replace(condition, n.Cond, "!("+text+")")
		}
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.GenDecl:
		f.constants(n)
	case *ast.ReturnStmt:
		if !hasError || len(n.Results) == 0 {
			return
		}
		last := n.Results[len(n.Results)-1]
		if text := f.text(last); text != "nil" && (strings.HasSuffix(text, "rr") || strings.Contains(text, "Err")) {
			f.replace(ignored, last, "nil")
		}
	case *ast.SwitchStmt:
		f.cases(n.Body)
	case *ast.TypeSwitchStmt:
		f.cases(n.Body)
	case *ast.SelectStmt:
		f.cases(n.Body)
	}
}

// binary adds the mutants of an operator, and of an integer that something is compared with.
func (f *finder) binary(n *ast.BinaryExpr) {
	turned := map[token.Token]token.Token{
		token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
		token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	}
	other, ok := turned[n.Op]
	if !ok || strings.HasSuffix(f.text(n), "rr != nil") {
		return
	}
	kind := condition
	if n.Op == token.LSS || n.Op == token.LEQ || n.Op == token.GTR || n.Op == token.GEQ {
		kind = limit
	}
	at := f.offset(n.OpPos)
	f.add(kind, edit{at, at + len(n.Op.String()), other.String()})
	f.integer(n.X)
	f.integer(n.Y)
}

// constants adds the mutants of the integers that constants are. Durations and sizes, which are
// products and shifts, are left out: one second more of ten is no other behaviour.
func (f *finder) constants(n *ast.GenDecl) {
	for _, spec := range n.Specs {
		if values, ok := spec.(*ast.ValueSpec); ok && n.Tok == token.CONST {
			for _, value := range values.Values {
				f.integer(value)
			}
		}
	}
}

func (f *finder) integer(e ast.Expr) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.INT {
		return
	}
	if n, err := strconv.ParseInt(literal.Value, 0, 64); err == nil {
		f.replace(limit, e, strconv.FormatInt(n+1, 10))
		f.replace(limit, e, strconv.FormatInt(n-1, 10))
	}
}

// cases adds a mutant for each case of a switch or select that has others.
func (f *finder) cases(body *ast.BlockStmt) {
	if len(body.List) < 2 {
		return
	}
	for _, clause := range body.List {
		var colon token.Pos
		switch c := clause.(type) {
		case *ast.CaseClause:
			colon = c.Colon
		case *ast.CommClause:
			colon = c.Colon
		}
		start, end := f.offset(clause.Pos()), f.offset(clause.End())
		f.added(deleted, string(f.source[start:f.offset(colon)]), "(deleted)", edit{start, end, ""})
	}
}

// locks adds a mutant for each lock that a function both locks and unlocks.
func (f *finder) locks(fn *ast.FuncDecl) {
	edits, unlocks := map[string][]edit{}, map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) > 0 {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if ok && slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock"}, method.Sel.Name) {
			mutex := f.text(method.X)
			unlocks[mutex] = unlocks[mutex] || strings.HasSuffix(method.Sel.Name, "Unlock")
			edits[mutex] = append(edits[mutex], edit{f.offset(call.Pos()), f.offset(call.End()), "func() {}()"})
		}
		return true
	})
	for mutex, list := range edits {
		if len(list) > 1 && unlocks[mutex] {
			f.added(unlocked, mutex+".Lock()", "(left out)", list...)
		}
	}
}

func (f *finder) replace(kind string, n ast.Node, text string) {
	f.add(kind, edit{f.offset(n.Pos()), f.offset(n.End()), text})
}

// add adds a mutant that is shown as the changed line.
func (f *finder) add(kind string, e edit) {
	from := bytes.LastIndexByte(f.source[:e.start], '\n') + 1
	to := e.end + bytes.IndexByte(f.source[e.end:], '\n')
	before := string(f.source[from:to])
	f.added(kind, before, before[:e.start-from]+e.text+before[e.end-from:], e)
}

func (f *finder) added(kind, before, after string, edits ...edit) {
	m := mutant{area: f.area, file: f.file, kind: kind, function: f.function, edits: edits}
	m.line = 1 + bytes.Count(f.source[:edits[0].start], []byte{'\n'})
	m.before, m.after = strings.Join(strings.Fields(before), " "), strings.Join(strings.Fields(after), " ")
	f.seen[m.key()]++
	if n := f.seen[m.key()]; n > 1 { // the same line twice in a function
		m.after = fmt.Sprintf("%s (%d)", m.after, n)
	}
	f.found = append(f.found, m)
}

func (f *finder) offset(p token.Pos) int { return f.positions.Position(p).Offset }

func (f *finder) text(n ast.Node) string {
	return string(f.source[f.offset(n.Pos()):f.offset(n.End())])
}

func returnsError(fn *ast.FuncType) bool {
	if fn.Results == nil || len(fn.Results.List) == 0 {
		return false
	}
	last, ok := fn.Results.List[len(fn.Results.List)-1].Type.(*ast.Ident)
	return ok && last.Name == "error"
}
