package scripted

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"symbio/agent/llm"
)

// match is what a turn wants to see. A condition that is not there holds.
type match struct {
	System source    `yaml:"system"`
	User   source    `yaml:"user"`
	Task   source    `yaml:"task"`
	Turn   numbers   `yaml:"turn"`
	After  *[]string `yaml:"after"`
	Tools  []string  `yaml:"tools"`
	Result source    `yaml:"result"`
	Failed *bool     `yaml:"failed"`

	system, user, task, result *regexp.Regexp
}

// numbers is one number or a list of them.
type numbers []int

func (l *numbers) UnmarshalYAML(n *yaml.Node) error {
	var list []int
	if n.Kind != yaml.SequenceNode {
		n = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}, Line: n.Line}
	}
	if err := n.Decode(&list); err != nil || len(list) == 0 {
		return fmt.Errorf("line %d: want a number or a list of numbers", n.Line)
	}
	*l = list
	return nil
}

// compile compiles the patterns. Two patterns of one turn may not name the same group: a template
// could not tell them apart.
func (m *match) compile() error {
	seen := map[string]bool{}
	for _, p := range []struct {
		key string
		src source
		to  **regexp.Regexp
	}{{"system", m.System, &m.system}, {"user", m.User, &m.user}, {"task", m.Task, &m.task}, {"result", m.Result, &m.result}} {
		if !p.src.present() {
			continue
		}
		re, err := regexp.Compile(p.src.text)
		if err != nil {
			return fmt.Errorf("line %d: match.%s: %w", p.src.line, p.key, err)
		}
		for _, g := range re.SubexpNames() {
			if g != "" && seen[g] {
				return fmt.Errorf("line %d: match.%s: group %s is named twice in this turn", p.src.line, p.key, g)
			}
			seen[g] = true
		}
		*p.to = re
	}
	return nil
}

// scene is what a model was given, as conditions and templates see it.
type scene struct {
	request llm.Request
	user    string   // the last user message's text
	task    string   // that of the one that began the exchange
	said    []string // texts of those after it
	latest  stretch  // what came after the last user message
	whole   stretch  // what came after the task
}

// stretch is what came after a user message.
type stretch struct {
	from  int              // where its messages begin
	turn  int              // assistant messages in it
	last  []llm.ToolResult // the results that the model was given last, if nothing came behind them
	tools []string         // names of those results, sorted, each once
}

// newScene looks at the messages. What the user says behind results of tools was said meanwhile, and begins no exchange.
func newScene(r llm.Request) *scene {
	s := &scene{request: r}
	for i, m := range r.Messages {
		switch m.Role {
		case llm.User:
			s.user, s.latest = m.Text, stretch{from: i + 1}
			if i > 0 && r.Messages[i-1].Role == llm.Tool {
				s.said = append(s.said, m.Text)
				continue // the results before it are still what the model was given last
			}
			s.task, s.said, s.whole = m.Text, nil, stretch{from: i + 1}
		case llm.Assistant:
			s.latest.answered()
			s.whole.answered()
		case llm.Tool:
			s.latest.last, s.whole.last = m.Results, m.Results
		}
	}
	s.latest.name()
	s.whole.name()
	return s
}

func (s *stretch) answered() { s.turn, s.last = s.turn+1, nil }

func (s *stretch) name() {
	for _, res := range s.last {
		s.tools = append(s.tools, res.Name)
	}
	slices.Sort(s.tools)
	s.tools = slices.Compact(s.tools)
}

// seen is the stretch that a turn with this match is about.
func (m *match) seen(s *scene) *stretch {
	if m.task != nil {
		return &s.whole
	}
	return &s.latest
}

// offered lists the names of the tools the model may call.
func (s *scene) offered() []string {
	names := make([]string, len(s.request.Tools))
	for i, t := range s.request.Tools {
		names[i] = t.Name
	}
	return names
}

// difference is a condition that does not hold.
type difference struct{ condition, want, got string }

// fits checks every condition. It returns the named groups and the conditions that do not hold.
func (m *match) fits(s *scene) (map[string]any, []difference) {
	groups := map[string]any{}
	at := m.seen(s)
	var diffs []difference
	differ := func(condition, want, got string) {
		diffs = append(diffs, difference{condition, want, got})
	}
	if m.system != nil && !find(m.system, s.request.System, groups) {
		differ("system", "a match of "+m.System.text, quote(s.request.System))
	}
	if m.user != nil && !find(m.user, s.user, groups) {
		differ("user", "a match of "+m.User.text, quote(s.user))
	}
	if m.task != nil && !find(m.task, s.task, groups) {
		differ("task", "a match of "+m.Task.text, quote(s.task))
	}
	if m.Turn != nil && !slices.Contains(m.Turn, at.turn) {
		differ("turn", strings.Trim(fmt.Sprint([]int(m.Turn)), "[]"), fmt.Sprint(at.turn))
	}
	if m.After != nil {
		want := slices.Compact(slices.Sorted(slices.Values(*m.After)))
		if !slices.Equal(want, at.tools) {
			differ("after", names(want), names(at.tools))
		}
	}
	for _, t := range m.Tools {
		if offered := s.offered(); !slices.Contains(offered, t) {
			differ("tools", t, names(offered))
		}
	}
	if m.result != nil && !slices.ContainsFunc(at.last, func(r llm.ToolResult) bool { return find(m.result, r.Text, groups) }) {
		differ("result", "a match of "+m.Result.text, texts(at.last))
	}
	if m.Failed != nil {
		failed := slices.ContainsFunc(at.last, func(r llm.ToolResult) bool { return r.IsError })
		if failed != *m.Failed {
			differ("failed", fmt.Sprint(*m.Failed), fmt.Sprint(failed))
		}
	}
	return groups, diffs
}

// find matches and keeps the named groups; one that took no part is empty.
func find(re *regexp.Regexp, text string, groups map[string]any) bool {
	found := re.FindStringSubmatch(text)
	for i := range found {
		if name := re.SubexpNames()[i]; name != "" {
			groups[name] = found[i]
		}
	}
	return found != nil
}
