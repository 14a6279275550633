// Module gives this module another name, in go.mod, in the modules beside it, in the .proto files and in each Go file, so
// that other modules can import it from where its new owner keeps it.
//
//	module NAME [DIR]        DIR is the root of the checkout, by default ..
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "module:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || len(args) > 2 || args[0] == "" {
		return errors.New("say the new name: make module NAME=example.org/you/symbio")
	}
	dir := ".."
	if len(args) == 2 {
		dir = args[1]
	}
	if err := module.CheckPath(args[0]); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	r := renaming{dir, modfile.ModulePath(text), args[0]}
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == ".git" || name == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		changed, err := r.file(path)
		if changed {
			files++
		}
		return err
	})
	if err == nil {
		fmt.Printf("module %s is %s now: %d files changed\n", r.from, r.to, files)
	}
	return err
}

// renaming is of the module in a directory.
type renaming struct{ dir, from, to string }

// file writes the new name into a file, if it has the old one. Links are left alone.
func (r renaming) file(path string) (changed bool, err error) {
	rewrite := r.goFile
	switch {
	case filepath.Base(path) == "go.mod":
		rewrite = r.modFile
	case strings.HasSuffix(path, ".proto"):
		rewrite = r.protoFile
	case !strings.HasSuffix(path, ".go"):
		return false, nil
	}
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	before, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	after, err := rewrite(path, before)
	if err != nil || bytes.Equal(before, after) {
		return false, err
	}
	return true, os.WriteFile(path, after, info.Mode().Perm())
}

// goFile renames the strings that are the path of a package of the module: its imports, and those that tests pass to the
// go command.
func (r renaming) goFile(path string, text []byte) ([]byte, error) {
	files := token.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile(path, -1, len(text)), text, nil, 0)
	var out bytes.Buffer
	end := 0
	for {
		at, kind, literal := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind != token.STRING {
			continue
		}
		name, err := strconv.Unquote(literal)
		if sub, ours := strings.CutPrefix(name, r.from+"/"); err == nil && ours && r.isPackage(sub) {
			begin := files.Position(at).Offset
			out.Write(text[end:begin])
			out.WriteString(strconv.Quote(r.to + "/" + sub))
			end = begin + len(literal)
		}
	}
	out.Write(text[end:])
	if end == 0 {
		return text, nil
	}
	return format.Source(out.Bytes())
}

// isPackage reports whether a directory of the module has Go files.
func (r renaming) isPackage(sub string) bool {
	found, err := filepath.Glob(filepath.Join(r.dir, filepath.FromSlash(sub), "*.go"))
	return err == nil && len(found) > 0
}

// protoFile renames the Go package of a .proto file.
func (r renaming) protoFile(_ string, text []byte) ([]byte, error) {
	return bytes.ReplaceAll(text, []byte(`go_package = "`+r.from+`/`), []byte(`go_package = "`+r.to+`/`)), nil
}

// modFile renames the module, and the requirement of the modules beside it.
func (r renaming) modFile(path string, text []byte) ([]byte, error) {
	f, err := modfile.Parse(path, text, nil)
	if err != nil {
		return nil, err
	}
	if own := f.Module.Mod.Path; own == r.from || strings.HasPrefix(own, r.from+"/") {
		err = f.AddModuleStmt(r.to + strings.TrimPrefix(own, r.from))
	}
	for _, q := range f.Require {
		if q.Mod.Path == r.from {
			err = errors.Join(err, f.DropRequire(r.from), f.AddRequire(r.to, q.Mod.Version))
		}
	}
	for _, p := range f.Replace {
		if p.Old.Path == r.from {
			err = errors.Join(err, f.DropReplace(r.from, p.Old.Version), f.AddReplace(r.to, p.Old.Version, p.New.Path, p.New.Version))
		}
	}
	if err != nil {
		return nil, err
	}
	f.Cleanup()
	return f.Format()
}
