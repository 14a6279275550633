package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/agent/tool/skill"
	"symbio/community"
	"symbio/security/permission"
	"symbio/skills"
)

// project is an agent in a project whose skill asks for Read and Bash(python3:*).
type project struct {
	t        *testing.T
	file     string
	registry *skills.Registry
	house    *community.Community
	agent    community.Member
	asked    []agent.ApprovalRequest
	answers  []tool.Answer         // the next ones
	between  func(context.Context) // called while the person thinks
	kept     []string
	record   error
	trusted  []string // the rules of a trust record; nil = there is none
	journal  *session.Journal
	factory  *agent.Factory
	order    agent.Order
	next     func(ctx context.Context, r llm.Request) (llm.Message, error) // the model; nil = it activates the skill
}

// Trusted and Fetched make a project a skills.Trust.
func (p *project) Trusted(skills.Skill, string) ([]string, bool, error) {
	return p.trusted, p.trusted != nil, nil
}
func (p *project) Fetched() []skills.Root { return nil }

const projectSkill = "---\nname: own\ndescription: d\nallowed-tools: Read Bash(python3:*)%s\n---\nText.\n"

func newProject(t *testing.T, interactive bool) *project {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &project{t: t, file: filepath.Join(root, "own", "SKILL.md"), journal: session.NewJournal(inMemory(t), "n")}
	if err := os.Mkdir(filepath.Dir(p.file), 0o700); err != nil {
		t.Fatal(err)
	}
	p.write("")
	system := actor.NewSystem(actor.Config{})
	if p.registry, err = skills.NewRegistry(system, skills.Config{Roots: []skills.Root{{Path: root, Scope: skills.ScopeProject}}, Trust: p}); err != nil {
		t.Fatal(err)
	}
	p.house = community.New(community.Config{System: system})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.house.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, system.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
	})
	model := llm.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
		if p.next != nil {
			m, err := p.next(ctx, r)
			return llm.Response{Message: m, Stop: llm.StopEnd}, err
		}
		m, err := call(use("1", "activate_skill", map[string]any{"skillName": "own"}))
		if last(r).Role == llm.Tool {
			m, err = say(last(r).Results[0].Text)
		}
		return llm.Response{Message: m, Stop: llm.StopEnd}, err
	})
	p.factory = agent.NewFactory(agent.Config{
		Community: p.house, Skills: p.registry, Dir: root, Journal: p.journal,
		Model: func(context.Context, string) (llm.Model, error) { return model, nil },
		SkillUse: agent.SkillUse{Tools: skill.Names(), Trust: func(s skills.Skill, hash string, rules []string) error {
			p.kept = append(p.kept, fmt.Sprintf("%s%d %v", s.Name, len(hash), rules))
			return nil
		}},
		Record: func(e agent.RecordedDecision) error {
			if e.Tool == "trust_skill" {
				return p.record
			}
			return nil
		},
	})
	p.order = agent.Order{Definition: definition.General(), Policy: allowed(t, "activate_skill", "deactivate_skill")}
	if interactive {
		p.order.Ask = func(ctx context.Context, d agent.ApprovalRequest) tool.Answer {
			p.asked = append(p.asked, d)
			if p.between != nil {
				p.between(ctx)
			}
			answer := p.answers[0]
			p.answers = p.answers[1:]
			return answer
		}
	}
	if p.agent, err = p.factory.Spawn(ctx, p.order); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *project) write(more string) {
	p.t.Helper()
	if err := os.WriteFile(p.file, fmt.Appendf(nil, projectSkill, more), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// take has the agent activate the skill and returns what the model is told.
func (p *project) take() string {
	p.t.Helper()
	r, err := p.house.Send(p.t.Context(), p.agent.ID, community.Signal{Perception: "task", Data: []byte("go")})
	if err != nil {
		p.t.Fatal(err)
	}
	return string(r.Data)
}

func (p *project) expect(what string, questions int, want ...string) {
	p.t.Helper()
	got := []string{}
	for _, g := range p.registry.Granted(string(p.agent.ID)) {
		got = append(got, g.Rule.String())
	}
	if d := cmp.Diff(append([]string{}, want...), got); d != "" || len(p.asked) != questions {
		p.t.Errorf("%s: %d questions, want %d; grants (-want +got):\n%s", what, len(p.asked), questions, d)
	}
	p.asked = nil
}

func TestPersonIsAskedOnceWhatAProjectsSkillMayGrant(t *testing.T) {
	p := newProject(t, true)
	p.answers = []tool.Answer{{}, {Allow: true, By: "terminal"}, {Allow: true, Always: true}}
	text := p.take()
	if len(p.asked) != 1 {
		t.Fatalf("asked %d times", len(p.asked))
	}
	d := p.asked[0]
	if d.Tool != "trust_skill" || d.Args["path"] != p.file || len(fmt.Sprint(d.Args["sha256"])) != 64 || fmt.Sprint(d.Args["grants"]) != "[Read Bash(python3:*)]" ||
		d.Verdict.Action != permission.Ask || !strings.Contains(d.Verdict.Why, "python3 runs what it is given") {
		t.Errorf("the question is %+v", d.Decision)
	}
	p.expect("after a no", 1)
	if !strings.Contains(text, "Not granted") || !strings.Contains(text, "Text.") {
		t.Errorf("the model reads %q", text)
	}
	p.take()
	p.expect("a no is remembered", 0)
	p.write(" Grep")
	if text := p.take(); strings.Contains(text, "Not granted") {
		t.Errorf("after a yes the model reads %q", text)
	}
	p.expect("changed, and a yes", 1, "Bash(python3:*)", "Grep", "Read")
	if len(p.kept) != 0 {
		t.Errorf("a yes for once is kept: %v", p.kept)
	}
	p.write(" Glob")
	p.take()
	p.expect("changed, and always", 1, "Bash(python3:*)", "Glob", "Read")
	if d := cmp.Diff([]string{"own64 [Read Bash(python3:*) Glob]"}, p.kept); d != "" {
		t.Errorf("kept (-want +got):\n%s", d)
	}
}

func TestSkillThatChangesWhileAPersonIsAskedGrantsNothing(t *testing.T) {
	p := newProject(t, true)
	p.answers = []tool.Answer{{Allow: true, Always: true}}
	p.between = func(context.Context) { p.write(" Bash(rm:*)") }
	p.take()
	p.expect("changed meanwhile", 1)
	if len(p.kept) != 0 {
		t.Errorf("kept: %v", p.kept)
	}
}

func TestTrustThatCannotBeRecordedIsNone(t *testing.T) {
	p := newProject(t, true)
	p.answers = []tool.Answer{{Allow: true, Always: true}}
	p.record = errors.New("the disk is full")
	p.take()
	p.expect("not recorded", 1)
}

func TestWithoutAnybodyToAskAProjectsSkillGrantsNothing(t *testing.T) {
	p := newProject(t, false)
	p.take()
	p.expect("no person to ask", 0)
}
