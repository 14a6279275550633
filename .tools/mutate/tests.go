package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// How long the tests of one package may take. A mutant that never ends is killed by that.
const (
	timeout     = 2 * time.Minute
	raceTimeout = 6 * time.Minute
)

// goPackage is what `go list` says about a package of the module.
type goPackage struct {
	folder string // in the module

	ImportPath                               string
	GoFiles, TestGoFiles, XTestGoFiles       []string
	Imports, TestImports, XTestImports, Deps []string
}

// runner runs the tests of mutants.
type runner struct {
	reach    string
	packages []goPackage
	root     string          // of the module
	dir      string          // for the changed file
	passes   map[string]bool // whether tests pass without a change, by their arguments
}

// newRunner returns a runner for the module in the working directory. The caller removes its dir.
func newRunner(ctx context.Context, reach string) (*runner, error) {
	if !slices.Contains([]string{"own", "direct", "all"}, reach) {
		return nil, fmt.Errorf("-reach %s: it is own, direct or all", reach)
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	r := &runner{reach: reach, root: root, passes: map[string]bool{}}
	list, err := exec.CommandContext(ctx, "go", "list", "-json", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(list)); decoder.More(); {
		var p goPackage
		if err := decoder.Decode(&p); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		_, p.folder, _ = strings.Cut(p.ImportPath, "/") // behind the name of the module
		r.packages = append(r.packages, p)
	}
	r.dir, err = os.MkdirTemp("", "mutate")
	return r, err
}

// decide runs the tests of the mutant's package, then those of its importers, until one fails. It returns
// the outcome, and the package and test that killed the mutant.
func (r *runner) decide(ctx context.Context, m mutant) (outcome, by string, err error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", "", err
	}
	changed, overlay := filepath.Join(r.dir, "changed.go"), filepath.Join(r.dir, "overlay.json")
	text := fmt.Sprintf(`{"Replace": {%q: %q}}`, filepath.Join(r.root, m.file), changed)
	if err := os.WriteFile(changed, m.apply(source), 0o600); err != nil {
		return "", "", err
	}
	if err := os.WriteFile(overlay, []byte(text), 0o600); err != nil {
		return "", "", err
	}
	race, folder := m.kind == unlocked, filepath.Dir(m.file)
	if out, err := r.command(ctx, race, "build", "-overlay", overlay, "./"+folder).CombinedOutput(); err != nil {
		return uncompiled, failure(out), ctx.Err()
	}
	for _, tester := range r.testers(folder) {
		if !r.passUnchanged(ctx, race, tester) {
			if tester == folder {
				return "", "", fmt.Errorf("%s: the tests fail without a change", folder)
			}
			continue // a failure says nothing
		}
		out, err := r.test(ctx, race, tester, "-count=1", "-failfast", "-overlay", overlay).CombinedOutput()
		if ctx.Err() != nil {
			return "", "", ctx.Err()
		}
		if err != nil {
			return killed, tester + " " + failure(out), nil
		}
	}
	return survived, "-", nil
}

// testers returns the folders of the packages whose tests see a package, nearest first. The tests of
// cmd/symbio itself drive whole programs and are left out.
func (r *runner) testers(folder string) []string {
	deps := map[string][]string{}
	for _, p := range r.packages {
		deps[p.ImportPath] = p.Deps
	}
	distance := func(p goPackage) int {
		is := func(importPath string) bool { return strings.HasSuffix(importPath, "/"+folder) }
		imports := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		switch {
		case p.folder == folder:
			return 0
		case slices.ContainsFunc(imports, is):
			return 1
		case slices.ContainsFunc(imports, func(i string) bool { return slices.ContainsFunc(deps[i], is) }):
			return 2
		}
		return 3
	}
	most := map[string]int{"own": 0, "direct": 1, "all": 2}[r.reach]
	all := slices.DeleteFunc(slices.Clone(r.packages), func(p goPackage) bool {
		return distance(p) > most || len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 || p.folder == "cmd/symbio"
	})
	slices.SortStableFunc(all, func(a, b goPackage) int {
		return cmp.Or(distance(a)-distance(b), len(a.Deps)-len(b.Deps))
	})
	var folders []string
	for _, p := range all {
		folders = append(folders, p.folder)
	}
	return folders
}

// passUnchanged reports whether the tests of a package pass without a change of the code.
func (r *runner) passUnchanged(ctx context.Context, race bool, folder string) bool {
	key := fmt.Sprint(folder, race)
	if _, ok := r.passes[key]; !ok {
		out, err := r.test(ctx, race, folder).CombinedOutput()
		if err != nil { // a busy machine
			out, err = r.test(ctx, race, folder).CombinedOutput()
		}
		if r.passes[key] = err == nil; err != nil {
			fmt.Fprintf(os.Stderr, "%s: without a change the tests fail, too (race detector: %t): %s\n", folder, race, failure(out))
		}
	}
	return r.passes[key]
}

// test is `go test` of one package.
func (r *runner) test(ctx context.Context, race bool, folder string, flags ...string) *exec.Cmd {
	args := []string{"test", "-p", "1", "-vet=off", "-timeout", timeout.String()}
	if race {
		args = []string{"test", "-p", "1", "-vet=off", "-timeout", raceTimeout.String(), "-race"}
	}
	return r.command(ctx, race, append(append(args, flags...), "./"+folder)...)
}

func (r *runner) command(ctx context.Context, race bool, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	if race {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	cmd.WaitDelay = 10 * time.Second // children of a test that was killed keep its output open
	return cmd
}

var failures = regexp.MustCompile(`--- FAIL: (\S+)|(panic: .*)|(fatal error: .*)|(.*\.go:\d+:\d+: .*)`)

// failure returns the name of the first test that failed in the output of the go command, or how it ended.
func failure(out []byte) string {
	text := strings.TrimSpace(string(out))
	if found := failures.FindStringSubmatch(text); found != nil {
		text = strings.Join(found[1:], "")
	}
	return strings.ReplaceAll(text[strings.LastIndex(text, "\n")+1:], "\t", " ")
}
