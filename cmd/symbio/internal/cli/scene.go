package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"symbio/cmd/symbio/internal/node"
)

// scene makes of a conversation's events what a person at a terminal sees: the first agent's text as prose, each call
// of a tool as one short line when it has ended, and those of sub-agents below their names.
type scene struct {
	screen *screen
	prose  bool // the terminal is where the answer goes
	root   string
	actors map[string]*player
	said   string   // by the first agent in its latest turn
	turn   int      // which that is
	held   []string // lines of sub-agents, while the first one is in the middle of a sentence
	doing  []*doing // calls that have not ended, the latest last
}

// player is one agent of the tree.
type player struct {
	name  string
	depth int
	began time.Time
}

// doing is a call of a tool that has not ended.
type doing struct {
	agent, call string
	what        string // the tool and its telling argument
	progress    string
	began       time.Time
}

// mostHeld is how many lines of sub-agents wait for the end of a sentence.
const mostHeld = 50

// mostDoing bounds the calls that are remembered: of more, the oldest end without a line.
const mostDoing = 1000

// happening is what the events of agents have in their data.
type happening struct {
	Name, Parent, Text, Tool, Call, Why, Next, Outcome string
	Turn, Missed                                       int
	Args                                               json.RawMessage
	Failed                                             bool
	Wait, Done, Total                                  float64
	Spent                                              *spent
}

func newScene(s *screen, prose bool) *scene {
	return &scene{screen: s, prose: prose, actors: map[string]*player{}}
}

// event shows one event.
func (s *scene) event(e node.Event) {
	var h happening
	if json.Unmarshal(e.Data, &h) != nil {
		h = happening{}
	}
	who := s.player(e, h)
	switch e.Type {
	case "task":
		if who.began = e.Time; who.depth > 0 {
			s.tell(who, lookBold, h.Text)
		}
	case "text":
		s.text(who, h)
	case "tool_call":
		s.begin(e, h)
	case "progress":
		if d := s.find(e.Agent, h.Call); d != nil {
			d.progress = progressText(h)
		}
	case "tool_result":
		s.end(e, who, h)
	case "turn":
		if who.depth == 0 {
			s.screen.finish()
			s.release()
		}
	case "done":
		if who.depth > 0 {
			s.tell(who, lookDim, "is done  "+h.Spent.after(e.Time.Sub(who.began)))
		}
	case "failed":
		if who.depth > 0 {
			s.tell(who, lookBad, "failed: "+h.Why+"  "+h.Spent.after(e.Time.Sub(who.began)))
		}
	default:
		s.aside(e, who, h)
	}
}

// speech shows only what the first agent says.
func (s *scene) speech(e node.Event) {
	var h happening
	if json.Unmarshal(e.Data, &h) != nil {
		h = happening{}
	}
	who := s.player(e, h)
	switch {
	case who.depth > 0 || e.Agent == "":
	case e.Type == "text":
		s.text(who, h)
	default:
		s.screen.finish()
	}
}

// aside shows what is neither text nor a tool.
func (s *scene) aside(e node.Event, who *player, h happening) {
	switch e.Type {
	case "retry":
		s.tell(who, lookDim, fmt.Sprintf("%s is asked in %.3gs, because %s", cmp.Or(h.Next, "the model"), h.Wait, h.Why))
	case "skill":
		s.tell(who, lookDim, "takes the skill "+h.Text)
	case "notice", "warning":
		s.tell(who, lookPlain, cmp.Or(h.Text, h.Why))
	case "compacted":
		s.tell(who, lookDim, "makes room in the model's context: "+h.Text)
	case "steered":
		s.tell(who, lookDim, h.Outcome+", from elsewhere: "+h.Text)
	case "gap":
		s.tell(who, lookDim, fmt.Sprintf("%d events are not shown: there were too many at once", h.Missed))
	}
}

// player is whose event it is. The first one that is seen is the first agent.
func (s *scene) player(e node.Event, h happening) *player {
	if e.Agent == "" {
		return &player{}
	}
	a := s.actors[e.Agent]
	if a == nil {
		a = &player{began: e.Time}
		if p := s.actors[h.Parent]; p != nil {
			a.depth = p.depth + 1
		}
		if s.root == "" {
			s.root = e.Agent
		}
		s.actors[e.Agent] = a
	}
	a.name = cmp.Or(h.Name, a.name)
	return a
}

// text adds prose; what sub-agents say is for their parents.
func (s *scene) text(who *player, h happening) {
	if who.depth > 0 {
		return
	}
	if h.Turn != s.turn {
		s.turn, s.said = h.Turn, ""
	}
	text := h.Text
	if s.said == "" {
		text = strings.TrimLeft(text, "\n")
	}
	s.said += text
	if s.prose {
		s.screen.prose(text)
	}
	if s.screen.part == "" {
		s.release()
	}
}

func (s *scene) begin(e node.Event, h happening) {
	if e.Agent == s.root {
		s.screen.finish()
		s.release()
	}
	if len(s.doing) >= mostDoing {
		s.doing = slices.Delete(s.doing, 0, mostDoing/2)
	}
	s.doing = append(s.doing, &doing{agent: e.Agent, call: h.Call, what: strings.TrimSpace(h.Tool + " " + telling(h.Args)), began: e.Time})
}

func (s *scene) find(agent, call string) *doing {
	for _, d := range s.doing {
		if d.agent == agent && d.call == call {
			return d
		}
	}
	return nil
}

// end shows a call that has ended: what, what came of it, how long it took.
func (s *scene) end(e node.Event, who *player, h happening) {
	what, time := h.Tool, ""
	if d := s.find(e.Agent, h.Call); d != nil {
		what, time = d.what, took(e.Time.Sub(d.began))
		s.doing = slices.DeleteFunc(s.doing, func(o *doing) bool { return o == d })
	}
	look, came := lookDim, outcome(h.Text)
	if h.Failed {
		look, came = lookBad, "failed: "+firstLine(h.Text)
	}
	room := s.screen.columns() - 1 - cellsIn(prefix(who)+time) - 4
	what = clipCells(what, max(room-cellsIn(came), room/2))
	s.tell(who, look, strings.TrimRight(what+"  "+clipCells(came, room-cellsIn(what))+"  "+time, " "))
}

// prefix is what stands before a line about an agent.
func prefix(who *player) string {
	if who.depth == 0 {
		return "  "
	}
	return strings.Repeat("  ", who.depth+1) + clipCells(printable(who.name), 24) + "  "
}

// tell shows a line about an agent: at once, or when the first one has ended its sentence.
func (s *scene) tell(who *player, look, text string) {
	line := s.screen.dressed(look, fit(prefix(who)+text, s.screen.columns()))
	if who.depth > 0 && s.screen.part != "" && len(s.held) < mostHeld {
		s.held = append(s.held, line)
		return
	}
	s.release()
	s.screen.dressedLine(line)
}

// release shows the lines that were held back.
func (s *scene) release() {
	held := s.held
	s.held = nil
	for _, line := range held {
		s.screen.dressedLine(line)
	}
}

// status says what happens now, for the row in which nothing is typed.
func (s *scene) status(now, since time.Time) string {
	text := "working"
	if n := len(s.doing); n > 0 {
		d := s.doing[n-1]
		text, since = strings.TrimSpace(d.what+" "+d.progress), d.began
		if a := s.actors[d.agent]; a != nil && a.depth > 0 {
			text = a.name + ": " + text
		}
		if n > 1 {
			text = fmt.Sprintf("%d calls, %s", n, text)
		}
	}
	if waits := now.Sub(since).Truncate(time.Second); waits >= time.Second {
		text += " " + waits.String()
	}
	return text
}

// finish ends a turn: with the answer, when it is not what was said last.
func (s *scene) finish(text string) {
	s.screen.finish()
	s.release()
	s.doing, s.turn = nil, 0
	if s.prose && text != "" && strings.TrimSpace(text) != strings.TrimSpace(s.said) {
		s.screen.lines(lookPlain, text)
	}
	s.said = ""
}

// tellingKeys are the arguments that say most of a call, the best first.
var tellingKeys = [...]string{"command", "pattern", "query", "url", "file_path", "path", "skillName", "capability", "task", "text", "message", "member", "name", "reason"}

// telling is the argument that says most of a call.
func telling(args json.RawMessage) string {
	var of map[string]any
	if json.Unmarshal(args, &of) != nil || len(of) == 0 {
		return strings.Trim(plainJSON(bytes.TrimSpace(args)), `{}"`)
	}
	for _, key := range tellingKeys {
		if text, ok := of[key].(string); ok && text != "" {
			return firstLine(text)
		}
	}
	return clip(strings.Trim(plainJSON(args), "{}"), 80)
}

// outcome is a result in a few words.
func outcome(text string) string {
	text = strings.TrimSpace(text)
	if n := strings.Count(text, "\n") + 1; n > 1 {
		return fmt.Sprintf("%d lines", n)
	}
	return printable(text)
}

func firstLine(text string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if strings.TrimSpace(rest) != "" {
		line += " …"
	}
	return printable(line)
}

func progressText(h happening) string {
	if h.Total > 0 {
		return fmt.Sprintf("%.0f%% %s", 100*h.Done/h.Total, printable(h.Text))
	}
	return printable(h.Text)
}

// took is a duration as people say it.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return ""
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// clipCells is text cut to so many columns.
func clipCells(text string, columns int) string {
	if text = printable(text); cellsIn(text) <= columns {
		return text
	}
	return fit(text, max(1, columns)) + "…"
}
