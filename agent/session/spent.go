package session

import (
	"time"

	"symbio/agent/budget"
)

// Spent returns what the models of these entries cost, and how many agents they spawned. A request
// whose answer is missing counts with its estimated size.
func Spent(entries []Entry) budget.Spent {
	var i Info
	for _, e := range entries {
		i.apply(e)
	}
	return i.Spent
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
