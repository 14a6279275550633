// Mutate changes the code at random places, one at a time, and runs the tests on each change. A change
// that no test notices (a survivor) shows behaviour that no test holds.
//
//	cd .tools && go run ./mutate [-seed N] [-count N] [-reach own|direct|all] [-resume FILE] [AREA...]
//
// An AREA is a folder of the module with all packages below. The tree is never changed: the changed
// file is given to the go command as an overlay. Each decided mutant is one line of standard output,
// separated by tabs; a table follows at the end.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// defaultAreas are the parts of the product that decide who may do what, and what survives.
var defaultAreas = []string{
	"community", "actor", "security/permission", "security/sandbox", "agent/budget",
	"agent/session", "skills", "transport/grpcpeer", "internal/actor", "internal/security/permission",
	"internal/agent/session", "internal/agent/lending", "internal/agent/team", "internal/skills",
}

// The outcomes of a mutant.
const (
	killed     = "killed"
	survived   = "survived"
	equivalent = "equivalent"
	uncompiled = "does not compile" // the next of the draw stands in for it
)

// decision is one line of the output.
type decision struct {
	mutant
	outcome string
	by      string // the package and test that killed the mutant, or why it is equivalent
}

func (d decision) String() string {
	place := fmt.Sprintf("%s:%d", d.file, d.line)
	return strings.Join([]string{d.area, place, d.kind, d.function, d.before, d.after, d.outcome, d.by}, "\t")
}

func main() {
	seed := flag.Uint64("seed", 1, "seed of the draw")
	count := flag.Int("count", 150, "number of mutants, spread evenly over the areas")
	reach := flag.String("reach", "all", "whose tests run: own (the package's), direct (its importers', too), all (and the importers' of these)")
	resume := flag.String("resume", "", "file with the output of an earlier run: its mutants are drawn first, and only its survivors run again")
	flag.Parse()
	areas := flag.Args()
	if len(areas) == 0 {
		areas = defaultAreas
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, areas, *seed, *count, *reach, *resume); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, areas []string, seed uint64, count int, reach, resume string) error {
	start := time.Now()
	reasons, err := readReasons(filepath.Join("mutate", "equivalent.tsv"))
	if err != nil {
		return err
	}
	earlier, err := readDecisions(resume)
	if err != nil {
		return err
	}
	if err := os.Chdir(".."); err != nil { // to the module whose code is changed
		return err
	}
	tests, err := newRunner(ctx, reach)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tests.dir)
	var all []decision
	for i, area := range areas {
		quota := count*(i+1)/len(areas) - count*i/len(areas)
		mutants, err := draw(area, tests.packages, seed)
		if err != nil {
			return err
		}
		// A change of the code since the earlier run changes the draw, but not which mutants it decided.
		slices.SortStableFunc(mutants, func(a, b mutant) int { return rank(earlier, a) - rank(earlier, b) })
		for _, m := range mutants {
			if quota == 0 {
				break
			}
			d, known := earlier[m.key()]
			d.mutant = m
			if reason, ok := reasons[m.key()]; ok {
				d.outcome, d.by = equivalent, reason
			} else if !known || d.outcome == survived {
				if d.outcome, d.by, err = tests.decide(ctx, m); err != nil {
					return err
				}
			}
			fmt.Println(d)
			if d.outcome != uncompiled {
				quota--
				all = append(all, d)
			}
		}
	}
	if err := printTable(areas, all); err != nil {
		return err
	}
	_, err = fmt.Printf("seed %d, %s\n", seed, time.Since(start).Round(time.Second))
	return err
}

// rank orders the mutants that were decided earlier before the others.
func rank(earlier map[string]decision, m mutant) int {
	if _, known := earlier[m.key()]; known {
		return 0
	}
	return 1
}

// readDecisions returns the decisions of an earlier run by the key of their mutant; none without a file.
func readDecisions(file string) (map[string]decision, error) {
	decisions := map[string]decision{}
	if file == "" {
		return decisions, nil
	}
	err := eachLine(file, 8, func(f []string) {
		name, _, _ := strings.Cut(f[1], ":")
		m := mutant{file: name, function: f[3], before: f[4], after: f[5]}
		decisions[m.key()] = decision{outcome: f[6], by: f[7]}
	})
	return decisions, err
}

// readReasons returns why mutants are equivalent to the code, by their key. The columns of the file
// are: file, function, before, after, reason.
func readReasons(file string) (map[string]string, error) {
	reasons := map[string]string{}
	err := eachLine(file, 5, func(f []string) { reasons[strings.Join(f[:4], "\t")] = f[4] })
	return reasons, err
}

// eachLine calls visit with the columns of each line that has n columns.
func eachLine(file string, n int, visit func(columns []string)) error {
	text, err := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(columns) == n {
			visit(columns)
		}
	}
	return err
}

// printTable counts the outcomes of each area and of each kind.
func printTable(areas []string, all []decision) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tdrawn\tkilled by its package\tkilled by an importer\tequivalent\tsurvivors")
	for _, name := range append(append(areas, kinds...), "all") {
		var drawn, own, importer, same, alive int
		for _, d := range all {
			if name != d.area && name != d.kind && name != "all" {
				continue
			}
			drawn++
			switch {
			case d.outcome == equivalent:
				same++
			case d.outcome == survived:
				alive++
			case strings.HasPrefix(d.by, filepath.Dir(d.file)+" "):
				own++
			default:
				importer++
			}
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", name, drawn, own, importer, same, alive)
	}
	return w.Flush()
}
