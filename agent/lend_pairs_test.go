package agent_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/security/permission"
	"symbio/skills"
)

// obeying is a model that makes the call of its task, "TOOL ARGUMENTS", and answers with the result.
func obeying() llm.Model {
	return script(func(_ context.Context, r llm.Request) (llm.Message, error) {
		if m := last(r); m.Role == llm.Tool {
			return say(m.Results[0].Text)
		}
		name, args, _ := strings.Cut(firstTask(r), " ")
		return call(use("1", name, json.RawMessage(args)))
	})
}

// command is a tool Bash that runs nothing, and read a tool Read that opens nothing.
func command() tool.Tool {
	return tool.New(tool.Spec{Name: "Bash"}, func(_ context.Context, a struct {
		Command string `json:"command"`
	}) tool.Result {
		return tool.Result{Text: "ran " + a.Command}
	})
}

func reading() tool.Tool {
	return tool.New(tool.Spec{Name: "Read", ReadOnly: true}, func(_ context.Context, a struct {
		Path string `json:"file_path"`
	}) tool.Result {
		return tool.Result{Text: "read " + a.Path}
	})
}

// pair is a parent on ann and its sub-agent, which runs there, too, or on bob.
type pair struct {
	*lan
	lent          bool
	parent, child community.Member
	person        *person
}

// has returns what the parent reads when it makes a call.
func (p *pair) has(name string, args map[string]any) string {
	data, err := json.Marshal(args)
	if err != nil {
		p.t.Fatal(err)
	}
	got, err := p.a.task(p.t.Context(), p.parent, name+" "+string(data))
	if err != nil {
		p.t.Fatalf("%s: %v", name, err)
	}
	return got
}

// spawn gives the parent its sub-agent.
func (p *pair) spawn() {
	args := map[string]any{"reason": "it is to help"}
	if p.lent {
		args["node"] = "bob"
	}
	got := p.has("replicate_agent", args)
	p.child.ID = community.MemberID(agentID(got))
	if p.child.ID == "" {
		p.t.Fatal(got)
	}
}

// asks returns what the sub-agent reads when it makes a call.
func (p *pair) asks(name string, args map[string]any) string {
	data, err := json.Marshal(args)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.has("send_signal", map[string]any{"member": p.child.ID, "data": name + " " + string(data)})
}

func (p *pair) bash(text string) string { return p.asks("Bash", map[string]any{"command": text}) }

// works returns what the sub-agent reads when it makes a call in a task that it has had for a while.
func (p *pair) works(name string, args map[string]any) string {
	data, err := json.Marshal(args)
	if err != nil {
		p.t.Fatal(err)
	}
	settle(3 * time.Second)
	got, err := p.on().task(p.t.Context(), p.child, name+" "+string(data))
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

// gives has an agent of a node give the skill back.
func (p *pair) gives(on *place, m community.Member) {
	if err := on.registry.Deactivate(p.t.Context(), string(m.ID), "counting"); err != nil {
		p.t.Fatal(err)
	}
}

// plan has a person set the mode of the parent.
func (p *pair) plan() {
	if err := p.a.factory.ChangeSettings(p.t.Context(), p.parent.ID, agent.Settings{Mode: agent.ModePlan}); err != nil {
		p.t.Fatal(err)
	}
}

// on is the node of the sub-agent.
func (p *pair) on() *place {
	if p.lent {
		return p.b
	}
	return p.a
}

// skillDir is the directory of the skill on the node of the sub-agent.
func (p *pair) skillDir() string { return filepath.Join(p.on().skills.Roots[0].Path, "counting") }

// activates has the sub-agent activate the skill. A lent one has those of its parent from the start.
func (p *pair) activates() { p.asks("activate_skill", map[string]any{"skillName": "counting"}) }

// What holds for a sub-agent of this node holds for one on another node, call by call.
func TestLentAgentMayWhatLocalOneMay(t *testing.T) {
	usual := []string{"replicate_agent", "invoke_capability", "send_signal", "activate_skill", "Skill(*)"}
	skill := func(p *pair) { p.has("activate_skill", map[string]any{"skillName": "counting"}) }
	const ran, denied = "ran ", "Denied"
	for name, tt := range map[string]struct {
		allow, deny []string // more rules of the parent
		do          func(p *pair) string
		want        string
	}{
		"a command that a skill of both grants": {do: func(p *pair) string { skill(p); p.spawn(); p.activates(); return p.bash("wc -l x") }, want: ran},
		"another command":                       {do: func(p *pair) string { skill(p); p.spawn(); p.activates(); return p.bash("ls") }, want: denied},
		"one with more than the name granted":   {do: func(p *pair) string { skill(p); p.spawn(); p.activates(); return p.bash("wc-x") }, want: denied},
		"a file of the skill that is run":       {do: func(p *pair) string { skill(p); p.spawn(); p.activates(); return p.bash(p.skillDir() + "/run.sh x") }, want: ran},
		"a file of the skill that is read": {do: func(p *pair) string {
			skill(p)
			p.spawn()
			p.activates()
			return p.asks("Read", map[string]any{"file_path": p.skillDir() + "/notes.txt"})
		}, want: "read "},
		"a file beside the skill": {do: func(p *pair) string {
			skill(p)
			p.spawn()
			p.activates()
			return p.asks("Read", map[string]any{"file_path": filepath.Dir(p.skillDir()) + "/notes.txt"})
		}, want: denied},
		"a skill that only the child has": {do: func(p *pair) string { p.spawn(); p.activates(); return p.bash("wc -l x") }, want: denied},
		"a skill that only the parent has": {do: func(p *pair) string {
			skill(p)
			p.spawn()
			p.activates()
			p.gives(p.on(), p.child)
			return p.bash("wc -l x")
		}, want: denied},
		"one that the parent activates later":      {do: func(p *pair) string { p.spawn(); p.activates(); skill(p); return p.bash("wc -l x") }, want: ran},
		"a grant that a rule of the parent denies": {deny: []string{"Bash(wc:*)"}, do: func(p *pair) string { skill(p); p.spawn(); p.activates(); return p.bash("wc -l x") }, want: denied},
		"a rule of the parent":                     {allow: []string{"Bash(make:*)"}, do: func(p *pair) string { p.spawn(); return p.bash("make x") }, want: ran},
		"a directory that a rule allows": {allow: []string{"Read(./in/*)"}, do: func(p *pair) string {
			p.spawn()
			return p.asks("Read", map[string]any{"file_path": "/work/in/x"})
		}, want: "read "},
		"a call that a person answers, twice": {allow: []string{"Bash(make:*)"}, deny: []string{"Bash(rm:*)"}, do: func(p *pair) string {
			p.spawn()
			p.person.answer = tool.Answer{Allow: true, Always: true, By: "me"}
			if got := p.bash("go test"); got != "ran go test" {
				return got
			}
			got := p.bash("go test")
			if asked, _ := p.person.questions(); asked != 1 {
				p.t.Errorf("a person was asked %d times", asked)
			}
			return got
		}, want: ran},
		"one that the parent gives back while the child works": {do: func(p *pair) string {
			skill(p)
			p.spawn()
			p.activates()
			p.gives(p.a, p.parent)
			return p.works("Bash", map[string]any{"command": "wc -l x"})
		}, want: denied},
		"the mode plan": {allow: []string{"Bash(make:*)"}, do: func(p *pair) string { p.spawn(); p.plan(); return p.works("Bash", map[string]any{"command": "make x"}) }, want: "The mode is plan"},
		"the mode plan, and a tool that reads": {allow: []string{"Read"}, do: func(p *pair) string {
			p.spawn()
			p.plan()
			return p.works("Read", map[string]any{"file_path": "/work/x"})
		}, want: "read "},
	} {
		for where, lent := range map[string]bool{"local": false, "lent": true} {
			t.Run(name+"/"+where, func(t *testing.T) {
				text := "---\nname: counting\ndescription: d\nallowed-tools: Bash(wc:*) Bash(${CLAUDE_SKILL_DIR}/run.sh:*)\n---\nCount."
				dirs := []string{skillAt(t, text), skillAt(t, text)}
				synctest.Test(t, func(t *testing.T) {
					l := newLAN(t, obeying(), general(), command(), reading())
					for i, p := range []*place{l.a, l.b} {
						p.skills = skills.Config{Roots: []skills.Root{{Path: dirs[i], Scope: skills.ScopeUser}}}
						if err := p.end(); err != nil {
							t.Fatal(err)
						}
						p.start(t)
					}
					l.b.lender = nil
					l.b.lendAs(t, lending.LenderConfig{}, agent.Order{Policy: allowed(t, append(usual, "Bash(make:*)", "Read(./*)", "Bash(go:*)")...)})
					l.meet()
					p := &pair{lan: l, lent: lent, person: &person{answer: tool.Answer{Why: "nobody is asked"}}}
					policy := allowed(t, append(usual, tt.allow...)...)
					policy.Deny = allowed(t, tt.deny...).Allow
					policy.Default = permission.Ask
					p.parent = l.a.spawn(t, agent.Order{Definition: definition.General(), Policy: policy, Ask: p.person.ask()})
					if got := tt.do(p); !strings.Contains(got, tt.want) {
						t.Errorf("%q, want %q", got, tt.want)
					}
				})
			})
		}
	}
}

func skillAt(t *testing.T, text string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "counting"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "counting", "SKILL.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}
