// Testreport reads what `go test -json` wrote, and says which tests ran, which were skipped, and which failed at first
// and passed when they were run again.
//
//	testreport skipped FILE        a line with package and test for each test that was skipped, or had a part that was
//	testreport summary NAME=FILE…  how many tests each file has; last the flaky ones, with their first failure
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	switch {
	case len(args) == 2 && args[0] == "skipped":
		tests, err := read(args[1])
		var roots []string
		for _, t := range tests {
			root, _, _ := strings.Cut(t.name, "/")
			if line := t.pkg + " " + root; t.skipped && !slices.Contains(roots, line) {
				roots = append(roots, line)
				fmt.Fprintln(out, line)
			}
		}
		return err
	case len(args) > 1 && args[0] == "summary":
		return summarize(out, args[1:])
	}
	return errors.New("usage: testreport skipped FILE | summary NAME=FILE…")
}

func summarize(out io.Writer, named []string) error {
	var flaky []string
	for _, arg := range named {
		name, file, _ := strings.Cut(arg, "=")
		tests, err := read(file)
		if err != nil {
			return err
		}
		ran, parts, skipped := 0, 0, 0
		for _, t := range tests {
			switch {
			case t.skipped:
				skipped++
			case t.parent() == "":
				ran++
			default:
				parts++
			}
			// A test fails with its part: the part says why.
			part := func(o *test) bool { return o.pkg == t.pkg && strings.HasPrefix(o.name, t.name+"/") && o.failure != "" }
			if t.failure != "" && t.passed && !slices.ContainsFunc(tests, part) {
				flaky = append(flaky, fmt.Sprintf("%s: %s.%s failed at first:\n%s", name, t.pkg, t.name, t.failure))
			}
		}
		fmt.Fprintf(out, "%s: %d tests with %d parts ran, %d were skipped\n", name, ran, parts, skipped)
	}
	fmt.Fprintln(out, "flaky:")
	if len(flaky) == 0 {
		fmt.Fprintln(out, "  none")
	}
	for _, f := range flaky {
		fmt.Fprintln(out, "  "+strings.ReplaceAll(strings.TrimSpace(f), "\n", "\n    "))
	}
	return nil
}

// test is a test or a part of one, over all times that it ran.
type test struct {
	pkg, name       string
	output          strings.Builder // of the time that runs
	failure         string          // the output of the first time that it failed
	passed, skipped bool            // the last time
}

// parent is the test that this is a part of, "" for a whole one.
func (t *test) parent() string {
	i := strings.LastIndex(t.name, "/")
	return t.name[:max(i, 0)]
}

// read returns the tests of a file in the order in which they were begun.
func read(file string) (all []*test, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	known := map[[2]string]*test{}
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var e struct{ Action, Package, Test, Output string }
		if json.Unmarshal(line, &e) != nil || e.Test == "" {
			continue // what the linker says, or what is said of a package
		}
		at := [2]string{e.Package, e.Test}
		if known[at] == nil {
			known[at] = &test{pkg: e.Package, name: e.Test}
			all = append(all, known[at])
		}
		known[at].add(e.Action, e.Output)
	}
}

func (t *test) add(action, output string) {
	switch action {
	case "run":
		t.output.Reset()
	case "output":
		t.output.WriteString(output)
	case "fail":
		t.passed, t.skipped = false, false
		if t.failure == "" {
			t.failure = t.output.String()
		}
	case "pass", "skip":
		t.passed, t.skipped = true, action == "skip"
	}
}
