//go:build linux

package main

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
	"time"
)

// notRun counts the shell blocks of the pages that no test runs, by the reason that their info string gives.
var notRun = map[string]int{
	"install":  2, // changes the machine
	"machines": 5, // needs a second machine; deploy_test.go runs the same lines on three
	"example":  1, // shows a part of what the quick start runs
	"checkout": 1, // needs the checkout and its tools
	"model":    1, // needs a real model
	"id":       4, // needs the id of a session or of an artifact
	"itself":   1, // go test ./... would run this test
}

// block is a fenced block of a page. Its info string is a language and words, such as "sh node" or "yaml file=a.yaml".
//
// Words of a shell block (sh) say how a test runs it; without one it is run and has to succeed:
//
//	node          each line starts a node in a terminal of its own; with wait=NAME until node desk sees that capability
//	background    it is started, and has to succeed before the page ends
//	live          it is ended by Ctrl-C after its first line of output
//	answer=TEXT   it is run on a terminal, on which a person answers TEXT
//	exit=N        it ends with that status
//	not-run=WHY   it is not run; see notRun
//
// A block "text output" has lines that the commands before it print, in any order; "…" stands for any text, and digits
// for any digits. A block with file=NAME, which the text above it names, is written to that file. Other YAML blocks are configurations that can be read.
// A Go block is a part of the file that from=NAME names.
type block struct {
	lang, text string
	before     string // the text above the block, since the block before
	words      map[string]string
	line       int
}

var fence = regexp.MustCompile("(?m)^```(.*)\n((?s:.*?))^```$")

// blocksOf returns the blocks of a page, in order.
func blocksOf(page string) []block {
	var all []block
	end := 0
	for _, at := range fence.FindAllStringSubmatchIndex(page, -1) {
		words := strings.Fields(page[at[2]:at[3]])
		b := block{text: page[at[4]:at[5]], before: page[end:at[0]], words: map[string]string{}, line: strings.Count(page[:at[0]], "\n") + 1}
		for i, word := range words {
			if name, value, _ := strings.Cut(word, "="); i > 0 {
				b.words[name] = value
			} else {
				b.lang = word
			}
		}
		all, end = append(all, b), at[1]
	}
	return all
}

func (b block) has(word string) bool { _, ok := b.words[word]; return ok }

// pages returns the texts of README.md and of the pages in docs, by their path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no pages", err)
	}
	all := map[string]string{}
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Join("cmd/symbio", file)] = string(text)
	}
	return all
}

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
	all := pages(t)
	for path, text := range all {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			r := newReading(t)
			if filepath.Base(path) == "quickstart.md" {
				text = all["README.md"] + text // which it goes on from
			}
			for _, b := range blocksOf(text) {
				if file := filepath.Base(b.words["file"]); b.has("file") && !strings.Contains(b.before, file) {
					t.Errorf("line %d: nobody sees the info string: the text above has to name %s", b.line, file)
				}
				t.Logf("line %d", b.line)
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
		r.write(block{text: text, words: map[string]string{"file": name}})
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "XDG_") && !strings.HasPrefix(name, "OPENAI_") && !strings.HasPrefix(name, "ANTHROPIC_") {
			r.env = append(r.env, v)
		}
	}
	r.env = append(r.env, "HOME="+r.home, "XDG_STATE_HOME="+shortDir(t))
	return r
}

// follow does what a block says.
func (r *reading) follow(b block) {
	r.t.Helper()
	switch {
	case b.has("file"):
		r.write(b)
	case b.lang == "sh" && b.has("not-run"):
	case b.lang == "sh" && b.has("node"):
		for line := range strings.Lines(b.text) {
			r.up(line)
		}
		r.meet()
		if name, ok := b.words["wait"]; ok {
			r.eventually("a capability "+name, func() bool {
				return r.shell("symbio capabilities --node desk "+name).Run() == nil
			})
		}
	case b.lang == "sh" && b.has("background"):
		cmd := r.shell(b.text)
		if err := cmd.Start(); err != nil {
			r.t.Fatal(err)
		}
		r.background = append(r.background, cmd)
	case b.lang == "sh":
		r.run(b)
	case b.lang == "text" && b.has("output"):
		r.compare(b)
	case b.lang == "yaml":
		file := filepath.Join(r.t.TempDir(), "page.yaml")
		if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
			r.t.Fatal(err)
		}
		if out, err := r.shell("symbio config --config " + file).CombinedOutput(); err != nil {
			r.t.Errorf("line %d: %v\n%s", b.line, err, out)
		}
	case b.lang == "go":
		source, err := os.ReadFile(filepath.Join("../..", b.words["from"]))
		if err != nil || !strings.Contains(flat(string(source)), flat(b.text)) {
			r.t.Errorf("line %d: this is not in %s (%v)", b.line, b.words["from"], err)
		}
	default:
		r.t.Errorf("line %d: a block of %q, which nothing checks", b.line, b.lang)
	}
}

// flat returns a text without its indentation.
func flat(text string) string { return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(text, "") }

func (r *reading) write(b block) {
	r.t.Helper()
	file, ofHome := strings.CutPrefix(b.words["file"], "~/")
	if ofHome {
		file = filepath.Join(r.home, file)
	} else {
		file = filepath.Join(r.work, file)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
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
	cmd := exec.Command("sh", "-e", "-c", text)
	cmd.Dir, cmd.Env, cmd.WaitDelay = r.work, r.env, limit
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
	for end := time.Now().Add(limit); ; {
		began := time.Now()
		if is() {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("there never is %s", what)
		}
		breathe(began, 50*time.Millisecond)
	}
}

func (r *reading) run(b block) {
	r.t.Helper()
	var err error
	if b.has("answer") {
		s := inTerminal(r.t, r.work, r.env, arguments(b.text)...)
		s.shows("a question", func(picture string) bool {
			return strings.Contains(picture, "N]") || strings.Contains(picture, "no, with a reason")
		})
		s.types(b.words["answer"] + "\n")
		err = <-s.done
		r.printed = strings.ReplaceAll(s.last(), "\r\n", "\n")
	} else {
		cmd := r.shell(b.text)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if b.has("live") {
			cmd.Args[3] = "exec " + cmd.Args[3]
			cmd.Stderr, cmd.Stdout = nil, &firstLine{out: &out, then: func() { cmd.Process.Signal(os.Interrupt) }}
		}
		if err = cmd.Start(); err == nil {
			timer := time.AfterFunc(limit, func() { cmd.Process.Kill() })
			err = cmd.Wait()
			timer.Stop()
		}
		r.printed = out.String()
	}
	r.t.Logf("$ %s\n%s", strings.TrimSpace(b.text), r.printed)
	want := "<nil>"
	if b.has("exit") {
		want = "exit status " + b.words["exit"]
	}
	if got := fmt.Sprint(err); got != want {
		r.t.Errorf("line %d: %s\nended with %s, want %s\n%s", b.line, b.text, got, want, r.printed)
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
func (r *reading) compare(b block) {
	r.t.Helper()
	for line := range strings.Lines(b.text) {
		if line = strings.TrimRight(line, " \n"); line == "" || line == "…" {
			continue
		}
		pattern := digits.ReplaceAllString(regexp.QuoteMeta(line), "[0-9a-f]+")
		pattern = "(?m)^" + strings.ReplaceAll(strings.ReplaceAll(pattern, "…", ".*"), "	", `\s+`) + `\s*$`
		if !regexp.MustCompile(pattern).MatchString(r.printed) {
			r.t.Errorf("line %d: no line is like %q of what was printed:\n%s", b.line, line, r.printed)
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
		if err := goBuild("-o", file, "symbio/cmd/examples/"+program); err != nil {
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
	timer := time.AfterFunc(limit, func() { cmd.Process.Kill() })
	if err := cmd.Wait(); err != nil {
		r.t.Errorf("node %s ended with %v", name, err)
	}
	timer.Stop()
}

// leave waits for what runs in the background, and ends the nodes.
func (r *reading) leave() {
	r.t.Helper()
	for _, cmd := range r.background {
		timer := time.AfterFunc(limit, func() { cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil {
			r.t.Errorf("%v ended with %v", cmd.Args[3], err)
		}
		timer.Stop()
	}
	for name := range maps.Clone(r.nodes) {
		r.down(name)
	}
}

func TestPagesSayWhatIsNotRun(t *testing.T) {
	t.Parallel()
	got := map[string]int{}
	for _, text := range pages(t) {
		for _, b := range blocksOf(text) {
			if b.has("not-run") {
				got[b.words["not-run"]]++
			}
		}
	}
	if !maps.Equal(got, notRun) {
		t.Errorf("blocks that are not run: %v, want %v", got, notRun)
	}
}

var (
	span   = regexp.MustCompile("`(symbio [a-z][^`]*)`")
	word   = regexp.MustCompile(`^[a-z]+$`)
	option = regexp.MustCompile(`--[a-z-]+`)
)

// mentions returns the commands that a page names in its text and in the blocks that are not run.
func mentions(page string) (all []string) {
	for _, m := range span.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		all = append(all, m[1])
	}
	for _, b := range blocksOf(page) {
		for line := range strings.Lines(b.text) {
			if line, _, _ = strings.Cut(line, " #"); b.has("not-run") && strings.HasPrefix(line, "symbio ") {
				all = append(all, strings.Split(line, " && ")...)
			}
		}
	}
	return all
}

// Commands that no test runs are at least commands and flags of the program.
func TestPagesNameCommandsAndFlagsOfTheProgram(t *testing.T) {
	t.Parallel()
	helps := map[string]string{}
	for path, text := range pages(t) {
		for _, line := range mentions(text) {
			args := strings.Fields(line)[1:]
			if n := slices.IndexFunc(args, func(a string) bool { return !word.MatchString(a) }); n >= 0 {
				args = args[:n]
			}
			args = args[:min(len(args), 2)]
			key := strings.Join(args, " ")
			if _, known := helps[key]; !known {
				out, err := exec.Command("symbio", append(args, "--help")...).CombinedOutput()
				if err != nil {
					t.Errorf("%s: %q: %v\n%s", path, line, err, out)
				}
				helps[key] = string(out)
			}
			if len(args) > 1 && strings.Contains(helps[key], "\nAvailable Commands:") {
				t.Errorf("%s: %q: there is no such command", path, line)
			}
			for _, o := range option.FindAllString(line, -1) {
				if !regexp.MustCompile(`(?m)\s` + o + `(\s|$)`).MatchString(helps[key]) {
					t.Errorf("%s: %q has no flag %s", path, line, o)
				}
			}
		}
	}
}

// maxReadme is how many lines README.md may have: the rest belongs on a page.
const maxReadme = 150

var (
	linkTo  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	// place is a file or folder of the repository that a page names.
	place     = regexp.MustCompile("`((?:actor|agent|cmd|community|deploy|discovery|proto|security|skills|transport|[.]ci)/[^` ]+)`")
	notAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)
)

func TestPagesLinkToWhatIsThere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	if n := strings.Count(all["README.md"], "\n"); n > maxReadme {
		t.Errorf("README.md has %d lines, want at most %d", n, maxReadme)
	}
	for path, text := range all {
		for _, m := range place.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("../..", m[1])); err != nil && !strings.Contains(m[1], "NAME") {
				t.Errorf("%s: %v", path, err)
			}
		}
		for _, m := range linkTo.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			file = filepath.Join(filepath.Dir(path), file)
			if strings.HasPrefix(m[1], "#") {
				file = path
			}
			target, err := os.ReadFile(filepath.Join("../..", file))
			if info, statErr := os.Stat(filepath.Join("../..", file)); statErr == nil && info.IsDir() {
				err = nil
			}
			if err != nil {
				t.Errorf("%s: %s: %v", path, m[1], err)
			} else if anchor != "" && !slices.Contains(anchors(string(target)), anchor) {
				t.Errorf("%s: %s has no heading for #%s", path, file, anchor)
			}
		}
	}
}

// anchors returns the names that headings of a page have in links.
func anchors(page string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		all = append(all, strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}
