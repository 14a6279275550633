package crossings

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"gopkg.in/yaml.v3"
)

var update = flag.Bool("update", false, "write community/design/crossings.md")

// page is generated from the features' files.
const page = "../../../../community/design/crossings.md"

// feature is a file of testdata. Its comment begins with "# " and the feature's name. These are its parts; all others are
// files of each cell, of which those below w are in the workspace of the node w, where the agent "worker" runs:
//
//	config, unconfigured   more of w's configuration, and of its lists; before its reload (none: without permissions)
//	borrower               that of a and b, which borrow the worker
//	worker                 more of the front matter of its definition
//	before, after          the worker's steps, each a list of calls; between the two a node may be killed
//	parent                 steps of the agents between the person and the worker, before they have it work
//	nodes                  other nodes that are started, with configurations among the files; a, b and w see them
//	turns                  turns of the model that come before those of the steps
//	flags                  of symbio run and symbio map
//	hanging                script while the agent runs that is to be interrupted; the gate comes after it
//	meanwhile              script while the agent runs; it begins in the directory of the node that has the task, $NODE
//	status                 the exit status, if it is not 0
//	seen                   script that judges what was done; the answer is on standard output
//	in PLACE               script in place of seen
//	not PLACE              the reason for which it has no meaning there
//	PART PLACE             PART for this place
type feature struct {
	file, name string
	parts      map[string]string
	files      []txtar.File
}

// places are the columns of the page. Scripts begin in a directory with the files of the cell; START is a node, and RUN
// NODE TASK gives it a task. JOIN makes a node a member of the cluster of node c, with its files below a state directory; NODES
// does so with those of the feature, and starts them.
var places = []struct{ name, title, script string }{
	{"local", "local agent", "START w\nRUN w --agent worker work\n"},
	{"sub-agent", "sub-agent", "START w\nRUN w sub:work\n"},
	{"two-levels", "two levels", "START w\nRUN w sub:sub:work\n"},
	{"lent", "lent to another node", "START a\nSTART w\nSEES a w\nRUN a w:work\n"},
	{"lent-on", "lent and lent on", "START a\nSTART b\nSTART w\nSEES a b\nSEES b w\nRUN a b:w:work\n"},
	{"map-item", "`map` item", "START w\nMAP w\n"},
	{"resumed", "resumed after kill -9 of its node", `START w
HANG w --agent worker gated
until 'tool_result worker tool=Glob' symbio events --node w --since 10m
node-kill w
wait hang
START w
RUN w --continue
`},
	{"lender-killed", "resumed after kill -9 of the lender", `START a
START w
SEES a w
HANG a w:gated
until 'tool_result worker tool=Glob' symbio events --node w --since 10m
node-kill w
wait hang
START w
SEES a w
RUN a --continue w:work
`},
	{"reloaded", "reloaded configuration", `cp w.yaml configured.yaml
cp unconfigured.yaml w.yaml
START w
cp configured.yaml w.yaml
exec symbio config reload --node w
RUN w --agent worker work
`},
	{"removed-node", "cluster with a removed node", `env STATE=$XDG_STATE_HOME
env XDG_STATE_HOME=$STATE/c
exec symbio cluster init --name lab --node c --listen 127.0.0.1:0
node-up c
env XDG_STATE_HOME=$STATE
NODES
JOIN x $STATE/x
START x
JOIN w $STATE
START w
JOIN a $STATE
START a
SEES a w
env XDG_STATE_HOME=$STATE/x
SEES x w
env XDG_STATE_HOME=$STATE/c
exec symbio cluster remove x --node c
env XDG_STATE_HOME=$STATE
until 'refused x .*removed' symbio events --node w --since 10m
until 'refused x .*removed' symbio events --node a --since 10m
env XDG_STATE_HOME=$STATE/x
cd x
exec symbio run --node x w:work
stdout 'no node "w" lends agents'
cd ..
env XDG_STATE_HOME=$STATE
exec symbio permissions audit show --node w
! stdout .
RUN a w:work
`},
}

// parts are those of a feature that are not files; a place may follow each.
var parts = []string{"config", "unconfigured", "borrower", "worker", "parent", "before", "after", "turns", "nodes", "flags", "hanging", "meanwhile", "status", "seen", "in", "not"}

// part returns a part of the feature for a place.
func (f *feature) part(name, place string) string {
	if text, ok := f.parts[name+" "+place]; ok {
		return text
	}
	return f.parts[name]
}

func features(t *testing.T) (all []*feature) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata has %d features: %v", len(files), err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(string(archive.Comment), "# "), "\n")
		f := &feature{file: strings.TrimSuffix(filepath.Base(file), ".txtar"), name: name, parts: map[string]string{}}
		for _, part := range archive.Files {
			kind, place, _ := strings.Cut(part.Name, " ")
			known := slices.ContainsFunc(places, func(p struct{ name, title, script string }) bool { return p.name == place })
			switch {
			case !slices.Contains(parts, kind):
				f.files = append(f.files, part)
			case place != "" && !known:
				t.Errorf("%s: %q is no place", file, place)
			default:
				f.parts[part.Name] = string(part.Data)
			}
		}
		all = append(all, f)
	}
	return all
}

// turn is one of the model's, as package scripted reads it.
type turn struct {
	Match map[string]any `yaml:"match,omitempty"`
	Text  string         `yaml:"text,omitempty"`
	Calls []any          `yaml:"calls,omitempty,flow"`
	Stall string         `yaml:"stall,omitempty"`
}

// delegation is the turns of the agents between the person and the worker. A task is the way to it, step by step.
const delegation = `
- {match: {user: '^sub:(?P<task>sub:.*)', turn: FIRST}, calls: [{tool: replicate_agent, args: {reason: it is told to, agent: parent, name: parent, task: '{{task}}'}}]}
- {match: {user: '^sub:(?P<task>.*)', turn: FIRST}, calls: [{tool: replicate_agent, args: {reason: it is told to, agent: worker, name: worker, task: '{{task}}'}}]}
- {match: {user: '^(?P<node>[bw]):(?P<task>w:.*)', turn: FIRST}, calls: [{tool: replicate_agent, args: {reason: it is told to, agent: parent, node: '{{node}}', name: parent, task: '{{task}}'}}]}
- {match: {user: '^(?P<node>[bw]):(?P<task>.*)', turn: FIRST}, calls: [{tool: replicate_agent, args: {reason: it is told to, agent: worker, node: '{{node}}', name: worker, task: '{{task}}'}}]}
- {match: {user: '^(sub|b|w):', after: [replicate_agent], result: '"success":true'}, calls: [{tool: wait_agents, args: {}}]}
- {match: {user: '^(sub|b|w):', after: [wait_agents], result: '"result":"(?P<answer>(?:[^"\\]|\\.)*)"'}, text: '{{answer}}'}
- {match: {user: '^(sub|b|w):'}, text: '{{result}}'}
`

// model returns the script of the model of all nodes.
func (f *feature) model(t *testing.T, place string) string {
	t.Helper()
	steps := func(part string) (all [][]any) {
		if err := yaml.Unmarshal([]byte(f.part(part, place)), &all); err != nil {
			t.Fatalf("%s: %s: %v", f.file, part, err)
		}
		return all
	}
	var turns []turn
	say := func(user string, steps [][]any) {
		for i, calls := range steps {
			turns = append(turns, turn{Match: map[string]any{"user": user, "turn": i}, Calls: calls})
		}
	}
	say("^(sub|b|w):", steps("parent"))
	first, err := yaml.Marshal(turns)
	if err != nil {
		t.Fatal(err)
	}
	turns = nil
	before, after := steps("before"), steps("after")
	gate := map[string]any{"tool": "Glob", "args": map[string]any{"pattern": "*.gate"}}
	say("stopped here|started again", after) // before the others: the message may begin with the task
	turns = append(turns, turn{Match: map[string]any{"user": "stopped here|started again"}, Text: "{{result}}"})
	say("^work", append(slices.Clone(before), after...))
	say("^gated", append(slices.Clone(before), []any{gate}))
	turns = append(turns, turn{Match: map[string]any{"user": "^gated"}, Stall: "1h"}, turn{Text: "{{result}}"})
	text, err := yaml.Marshal(turns)
	if err != nil {
		t.Fatal(err)
	}
	if len(steps("parent")) == 0 {
		first = nil
	}
	return "turns:\n" + f.part("turns", place) + string(first) + strings.ReplaceAll(delegation, "FIRST", strconv.Itoa(len(steps("parent")))) + string(text)
}

// common is the configuration of each node.
const common = `node: {name: NODE, listen: "127.0.0.1:0"}
workspace: NODE
agents: agents
model: scripted:model.yaml
capabilities: [{name: agents.spawn, agents: [worker, parent], timeout: 5m}]
authorize: [{from: "*", invoke: [agents.spawn, agents.steer, agents.interrupt, agents.state, node.info]}]
`

// configured returns the configuration of a node: common, and more; a list of both is one.
func configured(t *testing.T, node, more string) string {
	t.Helper()
	var all, own map[string]any
	for text, into := range map[string]*map[string]any{strings.ReplaceAll(common, "NODE", node): &all, more: &own} {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("configuration of %s: %v\n%s", node, err, text)
		}
	}
	for key, value := range own {
		if list, ok := all[key].([]any); ok {
			value = append(list, value.([]any)...)
		}
		all[key] = value
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// join makes a node with a state directory a member of the cluster of node c.
const join = `env XDG_STATE_HOME=$STATE/c
exec symbio cluster token --node c --json
capture TOKEN '"token":"([^"]+)"'
capture ADDR '"address":"([^"]+)"'
env XDG_STATE_HOME=%[2]s
exec symbio --node %[1]s cluster join $TOKEN $ADDR --listen 127.0.0.1:0
`

// script returns the cell of a feature and a place as a script with its files.
func (f *feature) script(t *testing.T, place, text string) []byte {
	t.Helper()
	borrower := cmp.Or(f.part("borrower", place), "permissions: {preset: permissive}\n")
	archive := &txtar.Archive{Files: slices.Clone(f.files)}
	add := func(name, text string) {
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(text)})
	}
	for node, more := range map[string]string{"a": borrower, "b": borrower, "x": borrower, "w": f.part("config", place)} {
		add(node+".yaml", configured(t, node, more))
		add(node+"/place", "")
	}
	add("unconfigured.yaml", configured(t, "w", cmp.Or(f.part("unconfigured", place), "permissions: {preset: none, default: deny}\n")))
	add("agents/worker.md", "---\nname: worker\ndescription: Does the work.\n"+f.part("worker", place)+"---\nYou work.\n")
	add("agents/parent.md", "---\nname: parent\ndescription: Has the work done.\n---\nYou have the work done.\n")
	add("lines.txt", "work\n")
	add("model.yaml", f.model(t, place))
	var script strings.Builder
	if !strings.Contains(text, "\nNODES\n") {
		for _, node := range strings.Fields(f.part("nodes", place)) {
			fmt.Fprintf(&script, "node-up %[1]s --config %[1]s.yaml\n", node)
		}
	}
	for line := range strings.Lines(text) {
		script.WriteString(f.line(place, strings.Fields(line), line))
	}
	script.WriteString(cmp.Or(f.part("in "+place, ""), f.part("seen", place)))
	archive.Comment = []byte(script.String())
	return txtar.Format(archive)
}

// line writes out a line of a place's script.
func (f *feature) line(place string, words []string, line string) string {
	flags := strings.TrimSpace(f.part("flags", place))
	if slices.Contains(words, "--continue") {
		flags = "" // what holds for a session holds when it goes on
	}
	status := cmp.Or(strings.TrimSpace(f.part("status", place)), "0")
	meanwhile := f.part("meanwhile", place)
	switch words[0] {
	case "START":
		up := fmt.Sprintf("node-up %[1]s --config %[1]s.yaml\n", words[1])
		for _, node := range strings.Fields(f.part("nodes", place)) {
			up += fmt.Sprintf("poll 'node.info\t%[2]s\tavailable' symbio nodes capabilities --node %[1]s\n", words[1], node)
		}
		return up
	case "JOIN":
		return fmt.Sprintf(join, words[1], words[2])
	case "NODES":
		up := ""
		for _, node := range strings.Fields(f.part("nodes", place)) {
			up += fmt.Sprintf(join+"node-up %[1]s --config %[1]s.yaml\n", node, "$STATE")
		}
		return up
	case "SEES":
		return fmt.Sprintf("poll 'agents.spawn\t%[2]s\tavailable' symbio nodes capabilities --node %[1]s\n", words[1], words[2])
	case "HANG":
		return fmt.Sprintf("cd %[1]s\nexec sh -c 'symbio run --node %[1]s %[2]s %[3]s; true' &hang&\nenv NODE=%[1]s\n%[4]scd ..\n", words[1], flags, strings.Join(words[2:], " "), f.part("hanging", place))
	case "RUN", "MAP":
		command := fmt.Sprintf("symbio run --node %s %s %s", words[1], flags, strings.Join(words[2:], " "))
		if words[0] == "MAP" {
			command = fmt.Sprintf("symbio map --node %[1]s --nodes %[1]s --agent worker --lines ../lines.txt %[2]s", words[1], flags)
		}
		if meanwhile != "" {
			return fmt.Sprintf("cd %[1]s\nenv NODE=%[1]s\n%[4]sexec %[2]s &run&\n%[3]scd ..\nwait run\n", words[1], command, meanwhile, map[bool]string{true: "! "}[status != "0"])
		}
		return fmt.Sprintf("cd %s\nenv NODE=%[1]s\nstatus %[2]s %[3]s\ncd ..\n", words[1], status, command)
	}
	return line
}

// later returns the places of testdata/later.txt by feature: their cells are empty yet. What gets a test or a reason is struck
// out there.
func later(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("testdata/later.txt")
	if err != nil {
		t.Fatal(err)
	}
	waiting := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		feature, names, _ := strings.Cut(line, ":")
		if waiting[feature] = strings.Fields(names); len(waiting[feature]) == 0 {
			for _, p := range places {
				waiting[feature] = append(waiting[feature], p.name)
			}
		}
	}
	return waiting
}

// Each cell of the table is a test, or has a reason for being none; the page says so.
func TestPageOfCrossingsHasNoEmptyCell(t *testing.T) {
	all := features(t)
	var text strings.Builder
	text.WriteString("# Crossings: each feature in each place where an agent can run\n\nGenerated from `cmd/symbio/systemtest/crossings/testdata`: `go test ./cmd/symbio/systemtest/crossings -update`. A cell is the test\n`TestCrossing/FEATURE/PLACE` of `make system PKG=crossings`, or the number of the reason for which it has no meaning. Those that are `not yet` are in\n`testdata/later.txt`.\n\n| feature |")
	for _, p := range places {
		text.WriteString(" " + p.title + " |")
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(places)) + "\n")
	var reasons []string
	waiting := later(t)
	for file := range waiting {
		if !slices.ContainsFunc(all, func(f *feature) bool { return f.file == file }) {
			all = append(all, &feature{file: file, name: file})
		}
	}
	slices.SortFunc(all, func(a, b *feature) int { return strings.Compare(a.file, b.file) })
	for _, f := range all {
		fmt.Fprintf(&text, "| %s: `%s` |", f.name, f.file)
		for _, p := range places {
			reason := strings.TrimSpace(f.parts["not "+p.name])
			seen := f.parts["in "+p.name] + f.part("seen", p.name)
			switch i := slices.Index(reasons, reason); {
			case slices.Contains(waiting[f.file], p.name):
				text.WriteString(" not yet |")
			case reason == "" && seen == "":
				t.Errorf("%s in %s: it has neither a test nor a reason", f.file, p.name)
			case reason == "":
				text.WriteString(" tested |")
			case i >= 0:
				fmt.Fprintf(&text, " (%d) |", i+1)
			default:
				reasons = append(reasons, reason)
				fmt.Fprintf(&text, " (%d) |", len(reasons))
			}
		}
		text.WriteString("\n")
	}
	text.WriteString("\nReasons:\n\n")
	for i, r := range reasons {
		fmt.Fprintf(&text, "%d. %s\n", i+1, r)
	}
	if *update {
		if err := os.WriteFile(page, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != text.String() {
		t.Errorf("%s is not what -update writes: %v\n%s", page, err, gocmp.Diff(string(got), text.String()))
	}
}
