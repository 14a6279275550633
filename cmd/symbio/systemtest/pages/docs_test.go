//go:build system && linux

package pages_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"symbio/internal/community/waittest"

	"symbio/cmd/symbio/symbiotest"
)

// reading is a person who follows one page, on a machine where nothing was done before.
type reading struct {
	t          *testing.T
	home, work string
	env        []string
	nodes      map[string]*exec.Cmd
	background []*exec.Cmd
	printed    string
}

func TestPagesDoWhatTheySay(t *testing.T) {
	t.Parallel()
	all := symbiotest.Pages(t, "../../../..")
	for path, text := range all {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			r := newReading(t)
			if filepath.Base(path) == "quickstart.md" {
				text = all["README.md"] + text // which it goes on from
			}
			for _, b := range symbiotest.BlocksOf(text) {
				if file := filepath.Base(b.Words["file"]); b.Has("file") && !strings.Contains(b.Before, file) {
					t.Errorf("line %d: nobody sees the info string: the text above has to name %s", b.Line, file)
				}
				t.Logf("line %d", b.Line)
				r.follow(b)
			}
			r.leave()
		})
	}
}

func newReading(t *testing.T) *reading {
	dir := t.TempDir()
	r := &reading{t: t, home: filepath.Join(dir, "home"), work: filepath.Join(dir, "work"), nodes: map[string]*exec.Cmd{}}
	for _, dir := range []string{r.home, r.work} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"src/hello.go": "// Package hello is a part of what is surveyed.\npackage hello\n", "notes.md": "TODO\n"} {
		r.write(symbiotest.Block{Text: text, Words: map[string]string{"file": name}})
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "XDG_") && !strings.HasPrefix(name, "OPENAI_") && !strings.HasPrefix(name, "ANTHROPIC_") {
			r.env = append(r.env, v)
		}
	}
	r.env = append(r.env, "HOME="+r.home, "XDG_STATE_HOME="+symbiotest.ShortDir(t))
	return r
}

// follow does what a block says.
func (r *reading) follow(b symbiotest.Block) {
	r.t.Helper()
	switch {
	case b.Has("file"):
		r.write(b)
	case b.Lang == "sh" && b.Has("not-run"):
	case b.Lang == "sh" && b.Has("node"):
		for line := range strings.Lines(b.Text) {
			r.up(line)
		}
		r.meet()
		if name, ok := b.Words["wait"]; ok {
			r.eventually("a capability "+name, func() bool {
				return r.shell("symbio nodes capabilities --node desk "+name).Run() == nil
			})
		}
	case b.Lang == "sh" && b.Has("background"):
		cmd := r.shell(b.Text)
		if err := cmd.Start(); err != nil {
			r.t.Fatal(err)
		}
		r.background = append(r.background, cmd)
	case b.Lang == "sh":
		r.run(b)
	case b.Lang == "text" && b.Has("output"):
		r.compare(b)
	case b.Lang == "yaml":
		file := filepath.Join(r.t.TempDir(), "page.yaml")
		if err := os.WriteFile(file, []byte(b.Text), 0o600); err != nil {
			r.t.Fatal(err)
		}
		if out, err := r.shell("symbio config --config " + file).CombinedOutput(); err != nil {
			r.t.Errorf("line %d: %v\n%s", b.Line, err, out)
		}
	case b.Lang == "go":
		source, err := os.ReadFile(filepath.Join("../../../..", b.Words["from"]))
		if err != nil || !strings.Contains(flat(string(source)), flat(b.Text)) {
			r.t.Errorf("line %d: this is not in %s (%v)", b.Line, b.Words["from"], err)
		}
	default:
		r.t.Errorf("line %d: a block of %q, which nothing checks", b.Line, b.Lang)
	}
}

// flat returns a text without its indentation.
func flat(text string) string { return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(text, "") }

func (r *reading) write(b symbiotest.Block) {
	r.t.Helper()
	file, ofHome := strings.CutPrefix(b.Words["file"], "~/")
	if ofHome {
		file = filepath.Join(r.home, file)
	} else {
		file = filepath.Join(r.work, file)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(b.Text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// waiting is the id of a decision, of which the pages have an example.
var waiting = regexp.MustCompile(`\b[0-9]+-[0-9a-f]{8}\b`)

// shell returns the commands of a text as a process that was not started yet.
func (r *reading) shell(text string) *exec.Cmd {
	r.t.Helper()
	text = strings.ReplaceAll(text, "go run ./cmd/symbio", "symbio")
	if waiting.MatchString(text) {
		text = waiting.ReplaceAllString(text, r.decision())
	}
	cmd := exec.CommandContext(waittest.Context(r.t), "sh", "-e", "-c", text)
	cmd.Dir, cmd.Env = r.work, r.env
	return cmd
}

// decision waits until a decision waits for a person, and returns its id.
func (r *reading) decision() string {
	r.t.Helper()
	var id string
	r.eventually("a decision that waits", func() bool {
		out, err := r.shell("symbio approvals list --json --node " + slices.Min(slices.Collect(maps.Keys(r.nodes)))).Output()
		id = waiting.FindString(string(out))
		return err == nil && id != ""
	})
	return id
}

func (r *reading) eventually(what string, is func() bool) {
	r.t.Helper()
	symbiotest.AwaitProgram(r.t, what, is)
}

func (r *reading) run(b symbiotest.Block) {
	r.t.Helper()
	var err error
	if b.Has("answer") {
		s := symbiotest.InTerminal(r.t, r.work, r.env, arguments(b.Text)...)
		s.Shows("a question", func(picture string) bool {
			return strings.Contains(picture, "N]") || strings.Contains(picture, "no, with a reason")
		})
		s.Types(b.Words["answer"] + "\r")
		err = <-s.Done
		r.printed = strings.ReplaceAll(s.Last(), "\r\n", "\n")
	} else {
		cmd := r.shell(b.Text)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if b.Has("live") {
			cmd.Args[3] = "exec " + cmd.Args[3]
			cmd.Stderr, cmd.Stdout = nil, &firstLine{out: &out, then: func() { cmd.Process.Signal(os.Interrupt) }}
		}
		if err = cmd.Start(); err == nil {
			err = cmd.Wait()
		}
		r.printed = out.String()
	}
	r.t.Logf("$ %s\n%s", strings.TrimSpace(b.Text), r.printed)
	want := "<nil>"
	if b.Has("exit") {
		want = "exit status " + b.Words["exit"]
	}
	if got := fmt.Sprint(err); got != want {
		r.t.Errorf("line %d: %s\nended with %s, want %s\n%s", b.Line, b.Text, got, want, r.printed)
	}
}

// arguments returns those of a line that runs symbio.
func arguments(line string) (all []string) {
	for _, arg := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(line, -1) {
		all = append(all, strings.Trim(arg, `"`))
	}
	return all[1:]
}

// firstLine calls then when it was written to.
type firstLine struct {
	out  *bytes.Buffer
	then func()
}

func (f *firstLine) Write(p []byte) (int, error) {
	if f.out.Len() == 0 {
		f.then()
	}
	return f.out.Write(p)
}

var (
	digits  = regexp.MustCompile(`[0-9a-f]{8,}|[0-9]+`)
	nameArg = regexp.MustCompile(`--name (\S+)`)
)

// compare wants each line of the block among those that were printed.
func (r *reading) compare(b symbiotest.Block) {
	r.t.Helper()
	for line := range strings.Lines(b.Text) {
		if line = strings.TrimRight(line, " \n"); line == "" || line == "…" {
			continue
		}
		pattern := digits.ReplaceAllString(regexp.QuoteMeta(line), "[0-9a-f]+")
		pattern = "(?m)^" + strings.ReplaceAll(strings.ReplaceAll(pattern, "…", ".*"), "	", `\s+`) + `\s*$`
		if !regexp.MustCompile(pattern).MatchString(r.printed) {
			r.t.Errorf("line %d: no line is like %q of what was printed:\n%s", b.Line, line, r.printed)
		}
	}
}

// up starts a node in a terminal of its own; the node of that name that runs already is ended before.
func (r *reading) up(line string) {
	r.t.Helper()
	name := "example"
	if m := nameArg.FindStringSubmatch(line); m != nil {
		name = m[1]
	}
	r.down(name)
	if program, ok := strings.CutPrefix(strings.TrimSpace(line), "go run ./cmd/examples/"); ok {
		file := filepath.Join(r.t.TempDir(), program)
		if err := symbiotest.GoBuild("-o", file, "../../../examples/"+program); err != nil {
			r.t.Fatal(err)
		}
		line = file
	}
	cmd := r.shell("exec " + line)
	if testing.Verbose() {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.nodes[name] = cmd
	r.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
}

// meet waits until the nodes that have a name see all others and what they provide.
func (r *reading) meet() {
	r.t.Helper()
	for name := range r.nodes {
		if name == "example" {
			continue
		}
		r.eventually("a node "+name+" that sees all others", func() bool {
			out, err := r.shell("symbio members --json --node " + name).Output()
			return err == nil && strings.Count(string(out), `"local":false`) == len(r.nodes)-1
		})
	}
}

// down ends a node as Ctrl-C does.
func (r *reading) down(name string) {
	r.t.Helper()
	cmd := r.nodes[name]
	if cmd == nil {
		return
	}
	delete(r.nodes, name)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		r.t.Errorf("node %s ended with %v", name, err)
	}
}

// leave waits for what runs in the background, and ends the nodes.
func (r *reading) leave() {
	r.t.Helper()
	for _, cmd := range r.background {
		if err := cmd.Wait(); err != nil {
			r.t.Errorf("%v ended with %v", cmd.Args[3], err)
		}
	}
	for name := range maps.Clone(r.nodes) {
		r.down(name)
	}
}
