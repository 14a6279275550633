package session

import (
	"time"

	"symbio/agent/budget"
)

// Spent returns what the models of these entries cost. A request whose answer is missing counts with
// its estimated size, because the provider may have charged it.
func Spent(entries []Entry) (s budget.Spent) {
	asked := 0 // tokens of a request without an answer
	for _, e := range entries {
		switch {
		case e.Kind == Request:
			s.Tokens += int64(asked) // the one before was repeated
			s.ModelCalls++
			asked = e.Usage.Input
		case e.Kind == End:
			asked = 0 // its failure is known, and cost nothing that was reported
		case e.Kind == Child:
			s.Agents++
		case e.Usage != nil:
			if e.Kind == Answer {
				asked = 0
			}
			s.Tokens += int64(e.Usage.Input + e.Usage.Output)
			if e.Usage.Cost != nil {
				s.Cost += *e.Usage.Cost
			}
		}
	}
	s.Tokens += int64(asked)
	return s
}

// RunningTime returns for how long the entries' exchange ran: from the first entry to the last,
// without the time before each Resume, in which the node did not run.
func RunningTime(entries []Entry) (ran time.Duration) {
	for i := 1; i < len(entries); i++ {
		if entries[i].Kind != Resume {
			ran += max(0, entries[i].Time.Sub(entries[i-1].Time))
		}
	}
	return ran
}

// Latest returns the entries of the latest exchange, from its Task on.
func Latest(entries []Entry) []Entry {
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Kind == Task {
			return entries[i:]
		}
	}
	return nil
}
