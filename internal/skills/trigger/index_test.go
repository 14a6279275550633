package trigger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/internal/skills/trigger"
	"symbio/skills/format"
)

func TestTriggersMatchWholeWordsFormsAndPatterns(t *testing.T) {
	entries := []format.Triggers{
		{Keywords: []string{"hello", "greet"}, Verbs: []string{"say", "wave"}, Patterns: []string{`greet\s+\w+`}},
		{Keywords: []string{"pull request", "C++", "部署"}},
		{Verbs: []string{"plan", "try", "fix", "Debug"}},
		{Patterns: []string{`PR\s*#?\d+`, `(deploy|release) to (staging|production)`}},
		{Keywords: []string{"-", ""}, Verbs: []string{""}, Patterns: []string{"(broken", ".*"}},
	}
	x := trigger.New(entries)
	for task, want := range map[string]string{
		"Hello there":                      `0 2 keyword "hello"`,
		"Othello":                          "",
		"please GREET ann, and say hello":  `0 8 pattern "greet ann"`,
		"he waved":                         `0 1 verb "wave"`,
		"she is waving":                    `0 1 verb "wave"`,
		"it says so":                       `0 1 verb "say"`,
		"sayonara":                         "",
		"open a Pull-Request":              `1 2 keyword "pull request"`,
		"pull the request":                 "",
		"request pull":                     "",
		"a bug in C++":                     `1 2 keyword "c++"`,
		"a C compiler":                     "",
		"请部署到生产":                           `1 2 keyword "部 署"`,
		"planning it":                      `2 1 verb "plan"`,
		"tried and tries":                  `2 2 verb "try"`,
		"it fixes it; debugging":           `2 2 verb "debug"`,
		"look at pr #12":                   `3 3 pattern "pr #12"`,
		"pr twelve":                        "",
		"Release to Production, hello":     `3 3 pattern "release to production", 0 2 keyword "hello"`,
		"":                                 "",
		"-":                                "",
		strings.Repeat("x ", 8193) + "say": "", // beyond what is looked at
	} {
		var got []string
		for _, m := range x.Match(task) {
			got = append(got, fmt.Sprintf("%d %d %s", m.Entry, m.Score, m.Why))
		}
		if d := cmp.Diff(want, strings.Join(got, ", ")); d != "" {
			t.Errorf("%.60q (-want +got):\n%s", task, d)
		}
	}
}

// vocabulary has n words of a made-up language, with the lengths of real ones.
func vocabulary(n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	words := make([]string, n)
	for i := range words {
		var b strings.Builder
		for range 2 + r.IntN(3) {
			b.WriteByte("bcdfghklmnprstvz"[r.IntN(16)])
			b.WriteByte("aeiou"[r.IntN(5)])
		}
		words[i] = b.String()
	}
	return words
}

// many are the triggers of n skills: five keywords, three verbs and a pattern each.
func many(n int) []format.Triggers {
	r := rand.New(rand.NewPCG(3, 4))
	words := vocabulary(20_000)
	word := func() string { return words[r.IntN(len(words))] }
	entries := make([]format.Triggers, n)
	for i := range entries {
		entries[i] = format.Triggers{
			Keywords: []string{word(), word(), word() + " " + word(), word() + " " + word(), word() + "-" + word()},
			Verbs:    []string{word(), word(), word()},
			Patterns: []string{word() + `\s+(the\s+)?` + word() + `\w*`},
		}
	}
	return entries
}

// task is a text of 300 words.
func task() string {
	r := rand.New(rand.NewPCG(5, 6))
	words := vocabulary(20_000)
	var b strings.Builder
	for range 300 {
		b.WriteString(words[r.IntN(len(words))] + " ")
	}
	return b.String()
}

func TestHostileTriggersTakeBoundedWork(t *testing.T) {
	entries := make([]format.Triggers, 10_000)
	for i := range entries {
		entries[i] = format.Triggers{Keywords: []string{"the", "the the"}, Verbs: []string{"the"},
			Patterns: []string{"the" + strings.Repeat("(e|th)*", 20) + "x"}}
	}
	x := trigger.New(entries)
	text := strings.Repeat("the ", 10_000)
	begun := time.Now()
	if got := len(x.Match(text)); got != 10_000 {
		t.Errorf("%d entries match", got)
	}
	t.Logf("%v", time.Since(begun))
}

// BenchmarkMatch is the time for one task over 10,000 skills, and how often it is the floor: one
// search of the text for each word of it in a map.
func BenchmarkMatch(b *testing.B) {
	x, text := trigger.New(many(10_000)), task()
	floor := map[string]bool{}
	for _, w := range vocabulary(20_000) {
		floor[w] = true
	}
	var ours, least []time.Duration
	matches := 0
	for b.Loop() {
		begun := time.Now()
		matches = len(x.Match(text))
		ours = append(ours, time.Since(begun))
		begun = time.Now()
		n := 0
		for w := range strings.FieldsSeq(strings.ToLower(text)) {
			if floor[w] {
				n++
			}
		}
		least = append(least, time.Since(begun))
		if n == 0 {
			b.Fatal("the floor finds nothing")
		}
	}
	slices.Sort(ours)
	slices.Sort(least)
	b.ReportMetric(float64(ours[len(ours)/2].Microseconds())/1000, "ms/task")
	b.ReportMetric(float64(ours[len(ours)/2])/float64(least[len(least)/2]), "x-floor")
	b.ReportMetric(float64(matches), "matches")
}

// BenchmarkNew is the time to make the index of 10,000 skills.
func BenchmarkNew(b *testing.B) {
	entries := many(10_000)
	b.ReportAllocs()
	for b.Loop() {
		trigger.New(entries)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("pull request", "say", `greet\s+\w+`, "Please greet ann and say it in the pull request")
	f.Add("部署", "ing", `ab|cd`, "请部署到生产 inging ABCD")
	f.Fuzz(func(t *testing.T, keyword, verb, pattern, text string) {
		x := trigger.New([]format.Triggers{{}, {Keywords: []string{keyword}, Verbs: []string{verb}, Patterns: []string{pattern}}})
		for _, m := range x.Match(text) {
			if m.Entry != 1 || m.Score < 1 || m.Why == "" {
				t.Errorf("got %+v", m)
			}
		}
	})
}
