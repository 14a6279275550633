package demo

import (
	"encoding/json"
	"slices"
	"strings"

	"symbio/cmd/symbio/internal/node"
)

// Skills is what the tour showed of skills, counted; the names are a contract.
type Skills struct {
	Catalog     []string `json:"catalog"`      // names that models were shown
	Activations int      `json:"activations"`  // how often an agent took one
	Lifted      int      `json:"lifted"`       // calls that were to be asked about, and that a grant allowed then
	StillDenied int      `json:"still_denied"` // calls of a granted tool that a rule denied
	GivenBack   int      `json:"given_back"`   // skills that an agent gave back
	AskedAgain  int      `json:"asked_again"`  // calls that had been allowed by a grant, and after it were to be asked about
}

// learning follows skills through the events.
type learning struct {
	skills  Skills
	granted map[string]map[string]bool // by agent, the tools that a skill grants now
	asked   map[string]bool            // agent and tool that were to be asked about
	lifted  map[string]bool            // of these, what a grant allowed
}

func newLearning() learning {
	return learning{granted: map[string]map[string]bool{}, asked: map[string]bool{}, lifted: map[string]bool{}, skills: Skills{Catalog: []string{}}}
}

func (l *learning) see(e node.Event) {
	var f struct {
		Text, Tool, Verdict, Source, Why string
		Rules                            []string
	}
	if json.Unmarshal(e.Data, &f) != nil {
		return
	}
	switch e.Type {
	case "catalog":
		for name := range strings.SplitSeq(f.Text, ", ") {
			if !slices.Contains(l.skills.Catalog, name) {
				l.skills.Catalog = append(l.skills.Catalog, name)
			}
		}
	case "skill_activated":
		l.skills.Activations++
	case "skill_granted", "skill_deactivated":
		if l.granted[e.Agent] == nil {
			l.granted[e.Agent] = map[string]bool{}
		}
		for _, rule := range f.Rules {
			tool, _, _ := strings.Cut(rule, "(")
			l.granted[e.Agent][tool] = e.Type == "skill_granted"
		}
		if e.Type == "skill_deactivated" && f.Why == "given back" {
			l.skills.GivenBack++
		}
	case "decision":
		l.decide(e.Agent+" "+f.Tool, l.granted[e.Agent][f.Tool], f.Verdict, f.Source)
	}
}

func (l *learning) decide(call string, granted bool, verdict, source string) {
	switch {
	case verdict == "ask" && l.lifted[call] && !granted:
		l.skills.AskedAgain++
	case verdict == "ask":
		l.asked[call] = true
	case verdict == "allow" && strings.HasPrefix(source, "skill:") && l.asked[call]:
		l.lifted[call] = true
		l.skills.Lifted++
	case verdict == "deny" && granted && source == "config":
		l.skills.StillDenied++
	}
}

func (l *learning) so() Skills { return l.skills }
