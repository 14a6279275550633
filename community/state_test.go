package community_test

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// The limits of what one type and one package hold together. Embedded types of the same package count with all that they
// have.
const (
	maxFields      = 15 // of a type
	maxPlainFields = 25 // of plain data: all fields are exported, or there are no methods
	maxUses        = 30 // methods of a type, and functions of its package that take it
	maxImports     = 20 // of our packages, by a package
	maxRootImports = 35 // by a composition root
)

// compositionRoots are the packages that put all others together.
var compositionRoots = []string{"agent/node", "cmd/symbio/internal/cli"}

// overLimit are the types and packages that are above their limit, with the most that each may have. A number may only
// become smaller.
var overLimit = map[string]int{}

// TestStateStaysSmall holds each type and package to the limits above: a type with many fields, or that many functions
// may change, cannot be understood in parts.
func TestStateStaysSmall(t *testing.T) {
	above := map[string]int{}
	for dir, p := range measure(t) {
		limit := maxImports
		if slices.Contains(compositionRoots, dir) {
			limit = maxRootImports
		}
		if n := len(p.imports); n > limit {
			above["imports "+dir] = n
		}
		for name := range p.types {
			limit := maxFields
			if p.isPlain(name) {
				limit = maxPlainFields
			}
			if n := p.fields(name); n > limit {
				above["fields "+dir+"."+name] = n
			}
			if n := p.methods(name) + p.takes[name]; n > maxUses {
				above["uses "+dir+"."+name] = n
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(above)) {
		if n, most := above[name], overLimit[name]; n > most {
			t.Errorf("%s: %d, above the limit, and above the %d of the list of exceptions; split it by subject", name, n, most)
		}
	}
	for name := range overLimit {
		if above[name] == 0 {
			t.Errorf("%s: keeps to the limit now; remove it from the list of exceptions", name)
		}
	}
}

// measured is what TestStateStaysSmall counts in one package.
type measured struct {
	types   map[string]ast.Expr
	own     map[string]int // methods by type, without those of embedded types
	takes   map[string]int // functions and methods by the type of a parameter
	imports map[string]bool
}

// measure counts in the product's code, by package.
func measure(t *testing.T) map[string]*measured {
	all := map[string]*measured{}
	for _, s := range sources(t) {
		dir := path.Dir(s.path)
		if s.isTest() {
			continue
		}
		p := all[dir]
		if p == nil {
			p = &measured{map[string]ast.Expr{}, map[string]int{}, map[string]int{}, map[string]bool{}}
			all[dir] = p
		}
		for _, i := range s.parsed.Imports {
			if folder, ours := ourName(strings.Trim(i.Path.Value, `"`)); ours {
				p.imports[folder] = true
			}
		}
		for _, d := range s.parsed.Decls {
			p.add(d)
		}
	}
	return all
}

func (p *measured) add(d ast.Decl) {
	switch d := d.(type) {
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if s, ok := s.(*ast.TypeSpec); ok {
				p.types[s.Name.Name] = s.Type
			}
		}
	case *ast.FuncDecl:
		if d.Recv != nil {
			p.own[receiverOf(d)]++
		}
		seen := map[string]bool{}
		for _, param := range d.Type.Params.List {
			if name := ownType(param.Type); name != "" && !seen[name] {
				seen[name] = true
				p.takes[name]++
			}
		}
	}
}

// ownType returns the name of a type of the same package, or of a pointer to it; "" for other types.
func ownType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return ownType(e.X)
	case *ast.IndexExpr:
		return ownType(e.X)
	case *ast.IndexListExpr:
		return ownType(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// fieldsOf returns the fields of a struct, none of another type.
func (p *measured) fieldsOf(name string) []*ast.Field {
	if s, ok := p.types[name].(*ast.StructType); ok {
		return s.Fields.List
	}
	return nil
}

// fields counts the fields of a type, and instead of an embedded one those that it has.
func (p *measured) fields(name string) (n int) {
	for _, f := range p.fieldsOf(name) {
		if _, ok := p.types[ownType(f.Type)].(*ast.StructType); ok && f.Names == nil {
			n += p.fields(ownType(f.Type))
			continue
		}
		n += max(1, len(f.Names))
	}
	return n
}

// methods counts the methods of a type and of those that it embeds.
func (p *measured) methods(name string) int {
	n := p.own[name]
	for _, f := range p.fieldsOf(name) {
		if f.Names == nil {
			n += p.methods(ownType(f.Type))
		}
	}
	return n
}

// isPlain reports whether a type is plain data, such as options, a message or an event.
func (p *measured) isPlain(name string) bool {
	if p.methods(name) == 0 {
		return true
	}
	for _, f := range p.fieldsOf(name) {
		if f.Names == nil && !ast.IsExported(ownType(f.Type)) && ownType(f.Type) != "" {
			return false
		}
		for _, id := range f.Names {
			if !id.IsExported() {
				return false
			}
		}
	}
	return true
}
