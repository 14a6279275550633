package session

import (
	"slices"
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

// Exchanges returns the exchanges in entries, each from its Task up to the next one.
func Exchanges(entries []Entry) (all [][]Entry) {
	for i, e := range entries {
		if e.Kind == Task {
			all = append(all, entries[i:i])
		}
		if last := len(all) - 1; last >= 0 {
			all[last] = all[last][:len(all[last])+1]
		}
	}
	return all
}

// Latest returns the entries of the latest exchange, from its Task on.
func Latest(entries []Entry) []Entry {
	if all := Exchanges(entries); len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// PersonsText returns what a person wrote of the latest task if all that follows it is its preparation, which the end of the
// node may have cut short: the model was sent nothing yet. Else it is "".
func PersonsText(entries []Entry) string {
	all := Latest(entries)
	if len(all) == 0 || slices.ContainsFunc(all, func(e Entry) bool { return e.Kind == Text || e.Kind == Request || e.Kind == Compaction }) {
		return ""
	}
	text := all[0].Message.Text
	return text[len(text)-min(max(all[0].Count, 0), len(text)):]
}

// ActiveSkills returns the entries by which the skills were activated that are active at the end of
// entries, in their order.
func ActiveSkills(entries []Entry) (all []Entry) {
	for _, e := range entries {
		if e.Kind != Skill || e.Skill == nil {
			continue
		}
		all = slices.DeleteFunc(all, func(o Entry) bool {
			return o.Skill.Path == e.Skill.Path || e.Skill.Hash == "" && (o.Text == e.Text || o.Skill.Path == e.Text)
		})
		if e.Skill.Hash != "" {
			all = append(all, e)
		}
	}
	return all
}

// LastAnswer returns the text of the model's last answer; "" = there is none.
func LastAnswer(entries []Entry) string {
	for _, e := range slices.Backward(entries) {
		if e.Kind == Answer {
			return e.Message.Text
		}
	}
	return ""
}

// PendingApproval returns the entry by which a person was asked about a call, if the entries end
// before there was an answer.
func PendingApproval(entries []Entry) (asked Entry, pending bool) {
	for _, e := range Latest(entries) {
		switch e.Kind {
		case Approval:
			asked, pending = e, true
		case Decision, Call, Result, Answer, End:
			pending = false
		}
	}
	return asked, pending
}
