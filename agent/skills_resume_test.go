package agent_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
)

// restart ends the agent as the end of its node does, and has another one go on with its session, whose
// model repeats what it is told.
func (p *project) restart(between func()) {
	p.t.Helper()
	s := p.factory.Session(p.agent.ID)
	p.journal.Suspend()
	now, cancel := context.WithCancel(p.t.Context())
	cancel() // a task that runs is not waited for
	if err := p.house.Terminate(now, p.agent.ID); err != nil {
		p.t.Fatal(err)
	}
	between()
	if _, err := p.journal.Recover(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.registry.Rescan(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	p.next = func(_ context.Context, r llm.Request) (llm.Message, error) { return say(last(r).Text) }
	o, err := p.order, error(nil)
	o.Session = s
	if p.agent, err = p.factory.Spawn(p.t.Context(), o); err != nil {
		p.t.Fatal(err)
	}
}

func TestSkillsComeBackAsTheyWere(t *testing.T) {
	once, all := []tool.Answer{{Allow: true}}, []string{"Bash(python3:*)", "Read"}
	record := func(p *project) { p.trusted = []string{"Read", "Bash(python3:*)"} }
	for name, c := range map[string]struct {
		answers []tool.Answer
		before  func(*project) // the first life
		between func(*project)
		grants  []string
		note    string // "" = none
	}{
		"accepted":        {answers: once, grants: all},
		"not accepted":    {answers: []tool.Answer{{}}},
		"trusted":         {before: record, grants: all},
		"accepted, gone":  {answers: once, between: func(p *project) { os.Remove(p.file) }, note: "own"},
		"accepted, other": {answers: once, between: func(p *project) { p.write(" Glob") }, note: "its SKILL.md has changed"},
		"trusted, other":  {before: record, between: func(p *project) { p.write(" Glob") }, note: "its SKILL.md has changed"},
		"untrusted":       {before: record, between: func(p *project) { p.trusted = nil }, note: "the trust in it has changed"},
		"less trusted":    {before: record, between: func(p *project) { p.trusted = []string{"Read"} }, note: "the trust in it has changed"},
		"denied":          {answers: once, between: func(p *project) { p.order.Policy = allowed(p.t, "Read") }, note: "denied"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t, true)
			if p.answers = c.answers; c.before != nil {
				c.before(p)
			}
			p.take()
			p.asked = nil
			between := func() {
				if c.between != nil {
					c.between(p)
				}
			}
			p.restart(between)
			said := p.take()
			if c.note == "" && said != "go" || !strings.Contains(said, c.note) || c.note != "" && !strings.HasPrefix(said, "go\n\n[The skill own is not active any more") {
				t.Errorf("the model is told %q, want %q", said, c.note)
			}
			p.expect("after the restart", 0, c.grants...)
			p.restart(func() {})
			if said := p.take(); said != "go" {
				t.Errorf("after another restart the model is told %q", said)
			}
			p.expect("after another restart", 0, c.grants...)
		})
	}
}

// The interrupted task goes on with the skill that it had activated.
func TestSkillsComeBackInAResumedTask(t *testing.T) {
	for name, change := range map[string]bool{"as they were": false, "changed": true} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t, true)
			p.answers = []tool.Answer{{Allow: true}}
			reached := make(chan bool)
			p.next = func(ctx context.Context, r llm.Request) (llm.Message, error) {
				if last(r).Role != llm.Tool {
					return call(use("1", "activate_skill", map[string]any{"skillName": "own"}))
				}
				reached <- true
				<-ctx.Done()
				return llm.Message{}, ctx.Err()
			}
			ended := make(chan error)
			go func() {
				_, err := p.house.Send(t.Context(), p.agent.ID, community.Signal{Perception: "task", Data: []byte("go")})
				ended <- err
			}()
			<-reached
			p.asked = nil
			p.restart(func() {
				if <-ended; change {
					p.write(" Glob")
				}
			})
			reply, err := p.house.Send(t.Context(), p.agent.ID, community.Signal{Perception: "task"})
			if err != nil || strings.Contains(string(reply.Data), "its SKILL.md has changed") != change {
				t.Errorf("the model is told %q, %v", reply.Data, err)
			}
			if change {
				p.expect("a changed skill", 0)
			} else {
				p.expect("the same skill", 0, "Bash(python3:*)", "Read")
			}
		})
	}
}

func TestSkillThatWasGivenBackStaysInactive(t *testing.T) {
	p := newProject(t, true)
	p.answers = []tool.Answer{{Allow: true}}
	p.take()
	p.next = func(_ context.Context, r llm.Request) (llm.Message, error) {
		if last(r).Role != llm.Tool {
			return call(use("2", "deactivate_skill", map[string]any{"skillName": "own"}))
		}
		return say(last(r).Results[0].Text)
	}
	if said := p.take(); !strings.Contains(said, "is not active any more") {
		t.Fatalf("the model reads %q", said)
	}
	p.asked = nil
	p.restart(func() {})
	if said := p.take(); said != "go" {
		t.Errorf("the model is told %q", said)
	}
	p.expect("after the restart", 0)
}

// The node ends while the skills are activated that the task names: the task goes on with what it would have had.
func TestSkillsThatAResumedTaskNames(t *testing.T) {
	for name, c := range map[string]struct {
		between func(*project)
		answers []tool.Answer
		grants  []string
		note    string
	}{
		"accepted":     {answers: []tool.Answer{{Allow: true}}, grants: []string{"Bash(python3:*)", "Read"}, note: "Text."},
		"not accepted": {answers: []tool.Answer{{}}, note: "Text."},
		"trusted":      {between: func(p *project) { p.trusted = []string{"Read"} }, answers: []tool.Answer{{}}, grants: []string{"Read"}, note: "Text."},
		"denied":       {between: func(p *project) { p.order.Policy.Deny = allowed(t, "activate_skill").Allow }, note: "which was not taken: denied"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t, true)
			asked, ended := make(chan bool), make(chan error)
			p.answers, p.between = []tool.Answer{{}}, func(ctx context.Context) { close(asked); <-ctx.Done() }
			send := func(data string) error {
				reply, err := p.house.Send(t.Context(), p.agent.ID, community.Signal{Perception: "task", Data: []byte(data)})
				if err == nil && strings.Count(string(reply.Data), c.note) != 1 {
					t.Errorf("the model is told %q", reply.Data)
				}
				return err
			}
			go func() { ended <- send("go $own") }()
			<-asked
			p.restart(func() {
				if <-ended; c.between != nil {
					c.between(p)
				}
			})
			p.asked, p.answers, p.between = nil, c.answers, nil
			if err := send(""); err != nil {
				t.Error(err)
			}
			p.expect("the task that goes on", len(c.answers)-len(p.answers), c.grants...)
		})
	}
}
