package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/tool/builtin"
	"symbio/community"
	"symbio/security/permission"
	"symbio/skills"
)

// school is a community whose agents take skills from directories on the disk.
type school struct {
	t         *testing.T
	dir       string // where the skills are
	work      string // where agents work
	registry  *skills.Registry
	community *community.Community
	factory   *agent.Factory
	requests  []llm.Request
	mu        sync.Mutex
	events    []event.Event                            // guarded by mu: an agent reports some after its answer
	next      func(r llm.Request) (llm.Message, error) // the model
	asks      func(spec string)                        // is told which models are opened; nil = not
}

// newSchool has the named files, in directories of skills.
func newSchool(t *testing.T, use agent.SkillUse, files map[string]string, policy ...func(*skills.Config)) *school {
	t.Helper()
	s := &school{t: t}
	for _, dir := range []*string{&s.dir, &s.work} {
		var err error
		if *dir, err = filepath.EvalSymlinks(t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		s.write(name, text)
	}
	system := actor.NewSystem(actor.Config{})
	cfg := skills.Config{Roots: []skills.Root{{Path: s.dir, Scope: skills.ScopeUser}}}
	for _, p := range policy {
		p(&cfg)
	}
	var err error
	if s.registry, err = skills.NewRegistry(system, cfg); err != nil {
		t.Fatal(err)
	}
	files1, err := builtin.New(builtin.Config{Dir: s.work})
	if err != nil {
		t.Fatal(err)
	}
	s.community = community.New(community.Config{System: system, Authorize: func(community.Peer, community.Call) error { return nil }})
	model := script(func(_ context.Context, r llm.Request) (llm.Message, error) {
		s.requests = append(s.requests, r)
		return s.next(r)
	})
	s.factory = agent.NewFactory(agent.Config{
		Community: s.community, Skills: s.registry, SkillUse: use, Tools: files1.Tools(), Dir: s.work,
		Model: func(_ context.Context, spec string) (llm.Model, error) {
			if s.asks != nil {
				s.asks(spec)
			}
			return model, nil
		},
		Report: func(e event.Event) { s.mu.Lock(); defer s.mu.Unlock(); s.events = append(s.events, e) },
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.community.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, system.Shutdown(context.Background()), files1.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *school) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *school) spawn(o agent.Order) community.Member {
	s.t.Helper()
	if o.Definition.Name == "" {
		o.Definition = definition.General()
	}
	if len(o.Policy.Allow) == 0 {
		o.Policy = permission.Standard()
	}
	m, err := s.factory.Spawn(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// tell gives an agent a task and returns its answer. The model calls the tools, one in a turn, and answers with
// the results.
func (s *school) tell(m community.Member, task string, calls ...llm.ToolCall) string {
	s.t.Helper()
	var results []string
	s.next = func(r llm.Request) (llm.Message, error) {
		if last(r).Role == llm.Tool {
			results = append(results, last(r).Results[0].Text)
		}
		if len(calls) > 0 {
			c := calls[0]
			calls = calls[1:]
			return call(c)
		}
		if results == nil {
			return say("There was nothing to do.")
		}
		return say(strings.Join(results, "\n---\n"))
	}
	r, err := s.community.Send(s.t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte(task)})
	if err != nil {
		s.t.Fatalf("%s: %v", task, err)
	}
	return string(r.Data)
}

func (s *school) system() string { return s.requests[len(s.requests)-1].System }

// happened returns the events so far.
func (s *school) happened() []event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

func (s *school) texts(kind string) (out []string) {
	for _, e := range s.happened() {
		if e.Type == kind {
			out = append(out, e.Text)
		}
	}
	return out
}

func front(name, more string) string {
	return "---\nname: " + name + "\ndescription: Does " + name + ".\n" + more + "---\n\nHow to " + name + ".\n"
}

func takes(name string) llm.ToolCall {
	return use("t", "activate_skill", map[string]any{"skillName": name})
}

// TestSystemPromptHoldsTheCatalogAndTheDefinitionsSkills is the prompt as a model reads it.
func TestSystemPromptHoldsTheCatalogAndTheDefinitionsSkills(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{
		"pre/SKILL.md": front("pre", "metadata: {version: '1.2'}\nallowed-tools: Write\n"), "pre/assets/form.md": "x",
		"one/SKILL.md": front("one", ""), "mine/SKILL.md": front("mine", "disable-model-invocation: true\n"), "gone/SKILL.md": front("gone", ""),
	}, func(c *skills.Config) { c.Choices.Disabled = []string{"gone"} })
	def := definition.General()
	def.Instructions, def.Skills = "You work.", []string{"pre", "missing", "mine", "pre"}
	m := s.spawn(agent.Order{Definition: def})
	s.tell(m, "go")
	_, got, _ := strings.Cut(s.system(), "\nWorking directory: "+s.work+"\n")
	want := `

<available_skills>
  <skill>
    <name>one</name>
    <description>Does one.</description>
    <location>ROOT/one/SKILL.md</location>
  </skill>
</available_skills>

# Available Skills

You have access to the following domain expertise:

## pre (Does pre.)

How to pre.

Relative paths in this skill are resolved from ROOT/pre

**Available assets:** form.md`
	if d := cmp.Diff(want, strings.ReplaceAll(got, s.dir, "ROOT")); d != "" {
		t.Errorf("prompt (-want +got):\n%s", d)
	}
	notices := []string{
		"Loaded skill: pre v1.2", "Warning: Skill 'missing' not found",
		"Error loading skill 'mine': activate mine: " + skills.ErrUserOnly.Error(),
	}
	if d := cmp.Diff(notices, s.texts(event.TypeNotice)); d != "" {
		t.Errorf("notices (-want +got):\n%s", d)
	}
	if got := s.registry.Granted(string(m.ID)); len(got) != 1 || got[0].Source != "skill:pre" {
		t.Errorf("the definition's skill grants %v", got)
	}
	if d := cmp.Diff([]string{"one"}, s.texts(event.TypeCatalog)); d != "" {
		t.Errorf("events about the catalog (-want +got):\n%s", d)
	}
}

func TestCatalogKeepsItsOrderWhileAnAgentLives(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{"one", "two", "three", "four"} {
		files[name+"/SKILL.md"] = front(name, "")
	}
	asked := 0
	use := agent.SkillUse{Prompt: skills.PromptOptions{MaxEntries: 2}, Uses: func() map[string]float64 {
		asked++
		return map[string]float64{"two": 2, "three": float64(asked)} // from the second time on three is first
	}}
	use.Uses()
	s := newSchool(t, use, files)
	m := s.spawn(agent.Order{})
	order := func() string { return strings.Join(s.texts(event.TypeCatalog), " / ") }
	s.tell(m, "go")
	s.write("five/SKILL.md", front("five", ""))
	if _, err := s.registry.Rescan(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.tell(m, "go on")
	if got := order(); got != "three, two / three, two" && got != "two, three / two, three" || asked != 2 {
		t.Errorf("the catalogs list %s, and the use was asked for %d times, want once for the agent", got, asked)
	}
}

func TestMessageThatNamesNoSkillIsAnsweredWithTheNearest(t *testing.T) {
	files := map[string]string{"release-notes/SKILL.md": front("release-notes", ""), "mine/SKILL.md": front("mine", "disable-model-invocation: true\n"), "other/SKILL.md": front("other", "")}
	for message, want := range map[string]string{
		"write $release-note please":             "The message names the skill $release-note, which was not taken: no such skill; there are $release-notes",
		"use $zzzz":                              "The message names the skill $zzzz, which was not taken: no such skill; there are $other, $release-notes",
		"print $HOME and $my_dir, that costs $5": "",
	} {
		s := newSchool(t, agent.SkillUse{}, files)
		s.tell(s.spawn(agent.Order{}), message)
		if got := strings.Join(s.texts(event.TypeNotice), "|"); got != want {
			t.Errorf("%s: notice %q, want %q", message, got, want)
		}
	}
}

func TestUnknownSkillsOfADefinitionFailIfSoConfigured(t *testing.T) {
	s := newSchool(t, agent.SkillUse{UnknownFails: true}, map[string]string{"one/SKILL.md": front("one", "")})
	def := definition.General()
	def.Skills = []string{"one", "two", "three"}
	_, err := s.factory.Spawn(t.Context(), agent.Order{Definition: def})
	if want := "Agent 'general' references unknown skill: two\nAgent 'general' references unknown skill: three"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSkillToolsAreThereWhileThereAreSkills(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, nil)
	m := s.spawn(agent.Order{})
	has := func() (names []string) {
		for _, spec := range s.requests[len(s.requests)-1].Tools {
			if strings.Contains(spec.Name, "skill") {
				names = append(names, spec.Name)
			}
		}
		return names
	}
	if got := s.tell(m, "go", takes("one")); !strings.Contains(got, `There is no tool "activate_skill"`) || len(has()) != 0 || strings.Contains(s.system(), "skill>") {
		t.Errorf("without skills: %q, tools %v, prompt %s", got, has(), s.system())
	}
	s.write("one/SKILL.md", front("one", ""))
	if _, err := s.registry.Rescan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.tell(m, "go", takes("one")); !strings.Contains(got, "How to one.") || cmp.Diff([]string{"activate_skill", "skill_search"}, has()) != "" || !strings.Contains(s.system(), "<name>one</name>") {
		t.Errorf("with a skill: %q, tools %v, prompt %s", got, has(), s.system())
	}
}

func TestAgentIsNotShownWhatItMayNotTake(t *testing.T) {
	files := map[string]string{"one/SKILL.md": front("one", ""), "two/SKILL.md": front("two", "")}
	tools := func(names ...string) *definition.Definition {
		d := definition.General()
		d.Tools = names
		return &d
	}
	for about, test := range map[string]struct {
		allow, deny string
		def         *definition.Definition
		want        string
	}{
		"all":                        {"activate_skill", "", nil, "one two"},
		"not one that is denied":     {"activate_skill", "Skill(two)", nil, "one"},
		"only what is allowed":       {"activate_skill(two)", "", nil, "two"},
		"denied by the other's name": {"activate_skill", "skill_load(one)", nil, "two"},
		"nothing without the tool":   {"activate_skill", "", tools("Read"), ""},
		"with the tool":              {"activate_skill", "", tools("activate_skill"), "one two"},
	} {
		s := newSchool(t, agent.SkillUse{}, files)
		o := agent.Order{Policy: allowed(t, test.allow)}
		if test.deny != "" {
			o.Policy.Deny = allowed(t, test.deny).Allow
		}
		if test.def != nil {
			o.Definition = *test.def
		}
		s.tell(s.spawn(o), "go")
		var got []string
		for _, name := range []string{"one", "two"} {
			if strings.Contains(s.system(), "<name>"+name+"</name>") {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: shown %v, want %s", about, got, test.want)
		}
	}
}

func TestRuleAboutASkillHoldsHoweverItIsNamed(t *testing.T) {
	s := newSchool(t, agent.SkillUse{Tools: []string{"activate_skill", "skill_load"}}, map[string]string{"one/SKILL.md": front("one", "allowed-tools: Write\n"), "two/SKILL.md": front("two", "")})
	policy := allowed(t, "activate_skill", "skill_load")
	policy.Deny = allowed(t, "Skill(one)").Allow
	m := s.spawn(agent.Order{Policy: policy})
	path := filepath.Join(s.dir, "one", "SKILL.md")
	for about, c := range map[string]llm.ToolCall{
		"by name":            takes("one"),
		"by path":            takes(path),
		"by directory":       takes(filepath.Dir(path)),
		"loaded by name":     use("1", "skill_load", map[string]any{"name": "one"}),
		"loaded by path":     use("1", "skill_load", map[string]any{"path": path}),
		"with another name":  use("1", "skill_load", map[string]any{"name": "two", "path": path}),
		"with force":         use("1", "activate_skill", map[string]any{"skillName": "one", "force": true}),
		"by a path not read": takes(filepath.Join(s.dir, "two", "..", "one", "SKILL.md")),
	} {
		got := s.tell(m, "go", c)
		if !strings.Contains(got, "Denied") && !strings.Contains(got, "no such skill") || strings.Contains(got, "How to") {
			t.Errorf("%s: %q", about, got)
		}
	}
	if got := s.registry.Granted(string(m.ID)); len(got) != 0 {
		t.Errorf("granted: %v", got)
	}
	if got := s.tell(m, "go", use("1", "skill_load", map[string]any{"name": "two"})); !strings.Contains(got, `<skill_context name="two"`) {
		t.Errorf("the other skill: %q", got)
	}
}

func TestMissSaysWhatWasMeant(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{"one/SKILL.md": front("one", "")})
	m := s.spawn(agent.Order{})
	if got := s.tell(m, "go", takes("One")); !strings.Contains(got, `did you mean "one"?`) {
		t.Errorf("got %q", got)
	}
}

// TestFilesOfASkillAreReadByTheToolRead holds R61: while the skill is active, and nothing else.
func TestFilesOfASkillAreReadByTheToolRead(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{
		"one/SKILL.md": front("one", ""), "one/references/a.md": "the reference\n", "two/SKILL.md": front("two", ""), "two/a.md": "another's\n", "secret": "s3cret\n",
	})
	if err := os.Symlink("../../secret", filepath.Join(s.dir, "one", "references", "out.md")); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	read := func(path string) llm.ToolCall {
		return use("r", "Read", map[string]any{"file_path": strings.ReplaceAll(path, "ROOT", s.dir)})
	}
	for about, policy := range map[string]permission.Policy{"a policy that reads all": permission.Standard(), "one that reads nothing else": allowed(t, "activate_skill")} {
		m := s.spawn(agent.Order{Policy: policy})
		refused := func(when, path string) {
			t.Helper()
			if got := s.tell(m, "go", read(path)); strings.Contains(got, "the reference") || strings.Contains(got, "another's") || strings.Contains(got, "s3cret") || strings.Contains(got, "How to") {
				t.Errorf("%s, %s: %s reads %q", about, when, path, got)
			}
		}
		refused("before", "ROOT/one/references/a.md")
		s.tell(m, "go", takes("one"))
		if got := s.tell(m, "go", read("ROOT/one/references/a.md")); !strings.Contains(got, "the reference") {
			t.Errorf("%s: the file of an active skill: %q", about, got)
		}
		for _, path := range []string{
			"ROOT/one/references/out.md", "ROOT/one/../secret", "ROOT/one/../two/a.md", "ROOT/two/a.md", "ROOT/secret", "references/a.md", "ROOT/one", "/etc/passwd/../" + s.dir + "/secret",
		} {
			refused("while active", path)
		}
		for _, other := range []llm.ToolCall{
			use("w", "Write", map[string]any{"file_path": s.dir + "/one/new.md", "content": "x"}),
			use("g", "Glob", map[string]any{"pattern": "*", "path": s.dir + "/one"}),
		} {
			if got := s.tell(m, "go", other); !strings.Contains(got, "Denied") && !strings.Contains(got, "outside the workspace") {
				t.Errorf("%s: %s in the skill's directory: %q", about, other.Name, got)
			}
		}
		if err := s.registry.Deactivate(t.Context(), string(m.ID), "one"); err != nil {
			t.Fatal(err)
		}
		refused("given back", "ROOT/one/references/a.md")
	}
}

func TestPersonNamesSkillsInAMessage(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{
		"one/SKILL.md": front("one", "allowed-tools: Write\n"), "mine/SKILL.md": front("mine", "disable-model-invocation: true\n"), "model/SKILL.md": front("model", "user-invocable: false\n"),
		"never/SKILL.md": front("never", "allowed-tools: Write\n"), "a/twin/SKILL.md": front("twin", ""), "b/twin/SKILL.md": front("twin", ""),
	})
	policy := allowed(t, "Read")
	policy.Default = permission.Ask
	policy.Deny = allowed(t, "Skill(never)").Allow
	m := s.spawn(agent.Order{Policy: policy})
	for _, test := range []struct {
		about, message string
		want, not      []string
	}{
		{"one for people, where rules would ask", "use $mine", []string{"How to mine.", `<skill_context name="mine"`}, nil},
		{"one for models", "use $model", []string{"names the skill $model, which was not taken", skills.ErrModelOnly.Error()}, []string{"How to"}},
		{"denied", "use $never", []string{"$never, which was not taken: denied: The rule Skill(never) denies this"}, []string{"How to"}},
		{"of two", "use $twin", []string{"ambiguous", s.dir + "/a/twin/SKILL.md, " + s.dir + "/b/twin/SKILL.md"}, []string{"How to"}},
		{"of two, by path", "use [$twin](" + s.dir + "/b/twin/SKILL.md)", []string{"How to twin.", `path="` + s.dir + "/b/twin/SKILL.md"}, nil},
		{"in other case", "use $One", []string{`did you mean "one"?`}, []string{"How to"}},
		{"a variable", "echo $HOME $my_dir", nil, []string{"skill"}},
		{"no skill", "use $nosuch", []string{"$nosuch, which was not taken: no such skill; there are $twin, $one]"}, []string{"How to", "$never", "$model"}},
		{"in code", "`$one` and \\$one\n```\n$one\n```", nil, []string{"How to"}},
		{"again", "use $mine", []string{"have not changed since you got them"}, []string{"How to"}},
	} {
		s.tell(m, test.message)
		messages := s.requests[len(s.requests)-1].Messages
		got := messages[len(messages)-1].Text
		if !strings.HasPrefix(got, test.message) {
			t.Errorf("%s: the message is %q", test.about, got)
		}
		rest := strings.TrimPrefix(got, test.message)
		for _, w := range test.want {
			if !strings.Contains(rest, w) {
				t.Errorf("%s: %q lacks %q", test.about, rest, w)
			}
		}
		for _, n := range test.not {
			if strings.Contains(rest, n) {
				t.Errorf("%s: %q holds %q", test.about, rest, n)
			}
		}
	}
	decisions := 0
	for _, e := range s.happened() {
		if e.Type == event.TypeDecision && e.ToolName() == "activate_skill" {
			decisions++
			if by := event.PartOf[event.Decision](e).By; by != "the message" {
				t.Errorf("a decision by %q", by)
			}
		}
	}
	if decisions != 5 { // mine twice, model, never, twin by its path
		t.Errorf("%d decisions were recorded, want 5", decisions)
	}
}

func TestOnlyAPersonNamesSkills(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{"one/SKILL.md": front("one", "allowed-tools: Write\n")})
	m := s.spawn(agent.Order{})
	s.next = func(llm.Request) (llm.Message, error) { return say("done") }
	for _, requester := range [][]string{{"node"}, {"node/agent"}} {
		if _, err := s.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte("use $one"), Requester: requester}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.registry.Granted(string(m.ID)); len(got) != 0 {
		t.Errorf("somebody else had the agent take a skill: %v", got)
	}
}

func TestTextThatTheConversationLostComesBack(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{"one/SKILL.md": front("one", ""), "pre/SKILL.md": front("pre", "")})
	def := definition.General()
	def.Skills = []string{"pre"}
	m := s.spawn(agent.Order{Definition: def})
	const text = "How to one."
	if got := s.tell(m, "go", takes("one"), takes("one")); strings.Count(got, text) != 1 || !strings.Contains(got, "have not changed") {
		t.Errorf("taken twice: %q; want the text and a reminder", got)
	}
	if got := s.tell(m, "again", takes("one")); strings.Contains(got, text) || strings.Contains(s.system(), text) {
		t.Errorf("in the next task: %q; want a reminder, the text is in the conversation", got)
	}
	// A task that fails is forgotten, and what was read in it.
	s.next = func(r llm.Request) (llm.Message, error) {
		if last(r).Role == llm.Tool {
			return llm.Message{}, errors.New("gone")
		}
		return call(use("1", "activate_skill", map[string]any{"skillName": "one", "force": true}))
	}
	if _, err := s.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte("fail")}); err == nil {
		t.Fatal("the task did not fail")
	}
	got := s.tell(m, "after", takes("one"))
	if strings.Count(s.system(), text) != 1 || strings.Count(s.system(), "How to pre.") != 1 || strings.Contains(got, text) {
		t.Errorf("after it: %q, and the prompt is %s; want the text there, once", got, s.system())
	}
}

func TestSkillsEndWithAnAgentThatBreaksDown(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{"one/SKILL.md": front("one", "allowed-tools: Write\n")})
	m := s.spawn(agent.Order{})
	s.tell(m, "go", takes("one"))
	if len(s.registry.Granted(string(m.ID))) != 1 {
		t.Fatal("nothing was granted")
	}
	s.next = func(llm.Request) (llm.Message, error) { panic("broken") }
	if _, err := s.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte("break")}); err == nil {
		t.Fatal("the task did not fail")
	}
	// The next task is answered by the agent that took its place.
	if got := s.tell(m, "go", takes("one")); !strings.Contains(got, "How to one.") {
		t.Errorf("the agent that took its place is reminded of what it never read: %q", got)
	}
	if err := s.community.Terminate(t.Context(), m.ID); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.registry.Granted(string(m.ID)), s.registry.Dirs(string(m.ID))); got != "[] []" {
		t.Errorf("left of an agent that ended: %s", got)
	}
}

func TestTurnsSkillsEndWithTheNextMessage(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{"one/SKILL.md": front("one", "allowed-tools: Write\n")}, func(c *skills.Config) { c.GrantTTL = skills.GrantTurn })
	m := s.spawn(agent.Order{})
	s.tell(m, "go", takes("one"))
	if len(s.registry.Granted(string(m.ID))) != 1 {
		t.Error("nothing was granted")
	}
	s.tell(m, "and now")
	if got := s.registry.Granted(string(m.ID)); len(got) != 0 {
		t.Errorf("granted in the next turn: %v", got)
	}
}

func TestTaskBeginsWithTheSkillsThatAreOnTheDisk(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{"one/SKILL.md": front("one", "")}, func(c *skills.Config) { c.Fresh = time.Nanosecond })
	m := s.spawn(agent.Order{})
	s.tell(m, "go")
	if strings.Contains(s.system(), "<name>late</name>") {
		t.Fatal("a skill is shown that is not there yet")
	}
	s.write("late/SKILL.md", front("late", ""))
	if got := s.tell(m, "go on", takes("late")); !strings.Contains(s.system(), "<name>late</name>") || !strings.Contains(got, "How to late.") {
		t.Errorf("a skill that was saved between two tasks is not there: %s", got)
	}
}

// TestSkillMadeDuringATaskIsFoundInIt has another process make it, or the agent itself, between two turns.
func TestSkillMadeDuringATaskIsFoundInIt(t *testing.T) {
	s := newSchool(t, agent.SkillUse{}, map[string]string{"one/SKILL.md": front("one", "")})
	m := s.spawn(agent.Order{})
	inner := []llm.ToolCall{use("1", "skill_search", map[string]any{"query": "made"}), use("2", "skill_search", map[string]any{"query": "made"}), takes("made")}
	var results []string
	s.next = func(r llm.Request) (llm.Message, error) {
		if last(r).Role == llm.Tool {
			results = append(results, last(r).Results[0].Text)
		}
		if len(results) == 1 {
			s.write("made/SKILL.md", front("made", ""))
		}
		if len(results) == len(inner) {
			return say("done")
		}
		return call(inner[len(results)])
	}
	if _, err := s.community.Send(t.Context(), m.ID, community.Signal{Perception: "task", Data: []byte("go")}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(results[0], `"count":0`) || !strings.Contains(results[2], "How to made.") {
		t.Errorf("the tools answered %q", results)
	}
}
