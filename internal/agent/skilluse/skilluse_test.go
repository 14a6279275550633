package skilluse_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/event"
	"symbio/internal/agent/event/eventtest"
	"symbio/internal/agent/skilluse"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// events makes events of an agent, of type and data in turn.
func events(agent string, pairs ...string) (all []event.Event) {
	for i := 0; i < len(pairs); i += 2 {
		e := eventtest.New(pairs[i], agent, pairs[i+1])
		e.Time = noon.Add(time.Duration(i) * time.Hour)
		all = append(all, e)
	}
	return all
}

func TestCountFollowsSkillsOfAnAgent(t *testing.T) {
	a := events("a",
		"catalog", `{"shown":["calm","shout"],"text":"calm"}`,
		"skill", `{"text":"calm"}`,
		"done", `{"text":"answer"}`,
		"catalog", `{"shown":["calm","new"]}`, // a new catalog: calm was shown to this agent already
		"skill", `{"text":"calm"}`,
		"failed", `{"why":"no"}`,
		"done", `{"text":"without a skill"}`,
	)
	b := events("b", "catalog", `{"shown":["calm"]}`, "done", `{}`, "catalog", `[]`, "other", `{"shown":["calm"]}`)
	want := []skilluse.Use{
		{Skill: "calm", Shown: 2, Taken: 2, Finished: 1, LastTaken: noon.Add(8 * time.Hour)},
		{Skill: "new", Shown: 1},
		{Skill: "shout", Shown: 1},
	}
	if d := cmp.Diff(want, skilluse.Count(append(a, b...))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := skilluse.Count(nil); got == nil || len(got) > 0 {
		t.Errorf("no events count %v, want an empty list", got)
	}
}

func TestCountDenials(t *testing.T) {
	for about, test := range map[string]struct {
		events []event.Event
		want   int
	}{
		"activation refused by the registry":        {events("a", "skill_refused", `{"skill":"x","path":"/x/SKILL.md","why":"off"}`), 1},
		"name of no skill":                          {events("a", "skill_refused", `{"skill":"x","why":"no such skill"}`), 0},
		"activation denied by a rule":               {events("a", "decision", `{"tool":"activate_skill","args":{"skillName":"x"},"approved":false}`), 1},
		"load denied by a rule":                     {events("a", "decision", `{"tool":"skill_load","args":{"name":"x"},"approved":false}`), 1},
		"activation allowed":                        {events("a", "decision", `{"tool":"activate_skill","args":{"skillName":"x"},"approved":true}`), 0},
		"call that the withheld rule would allow":   {events("a", "skill_refused", withheld, "decision", `{"tool":"Bash","args":{"command":"git log -3"},"approved":false}`), 1},
		"call that a person allowed":                {events("a", "skill_refused", withheld, "decision", `{"tool":"Bash","args":{"command":"git log -3"},"approved":true}`), 0},
		"call that the rule would not allow":        {events("a", "skill_refused", withheld, "decision", `{"tool":"Bash","args":{"command":"rm -r x"},"approved":false}`), 0},
		"call of another agent":                     {append(events("a", "skill_refused", withheld), events("b", "decision", `{"tool":"Bash","args":{"command":"git log"},"approved":false}`)...), 0},
		"withheld rule that cannot be read":         {events("a", "skill_refused", `{"skill":"x","path":"/x","withheld":[{"rule":"Bash("}]}`, "decision", `{"tool":"Bash","args":{"command":"ls"}}`), 0},
		"arguments of another shape than an object": {events("a", "decision", `{"tool":"activate_skill","args":["x"],"approved":false}`), 0},
	} {
		got := 0
		for _, u := range skilluse.Count(test.events) {
			if u.Skill == "x" {
				got = u.Denied
			}
		}
		if got != test.want {
			t.Errorf("%s: %d denied, want %d", about, got, test.want)
		}
	}
}

const withheld = `{"skill":"x","path":"/x/SKILL.md","why":"not all","withheld":[{"rule":"Bash(git log:*)","why":"not trusted"}]}`

func TestScoresPreferWhatWasTakenLately(t *testing.T) {
	week := 7 * 24 * time.Hour
	all := events("a", "skill", `{"text":"now"}`, "skill", `{"text":"old"}`, "skill", `{"text":"old"}`, "skill", `{"text":"often"}`, "skill", `{"text":"often"}`, "catalog", `{"text":"shown"}`)
	all[1].Time, all[2].Time = noon.Add(-2*week), noon.Add(-2*week)
	scores := skilluse.Scores(all, noon.Add(24*time.Hour))
	if !(scores["often"] > scores["now"] && scores["now"] > scores["old"] && scores["old"] > 0 && scores["shown"] == 0) {
		t.Errorf("scores are %v, want often > now > old > 0 and none of what was only shown", scores)
	}
}
