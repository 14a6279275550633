package skills_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"symbio/skills"
)

// library10k returns 10,000 skills with descriptions of about 30 words, of which no two are alike.
func library10k(b testing.TB) (c skills.Catalog) {
	all := searchCatalog(b).Skills
	for i := range 10_000 {
		s := all[i%len(all)]
		s.Name = fmt.Sprintf("%s-%d", s.Name, i/len(all))
		s.Description += " " + all[(i*7+i/len(all))%len(all)].Description
		s.Path = fmt.Sprintf("/skills/%d/SKILL.md", i)
		c.Skills = append(c.Skills, s)
	}
	return c
}

// BenchmarkSearch compares the index of 10,000 skills, and a search in it, with a floor of the same
// round: the time to put their texts into lower case and split them at blanks. It reports the memory
// that the index keeps for each skill.
func BenchmarkSearch(b *testing.B) {
	c := library10k(b)
	queries := searchQuestions(b, 0)
	var floor, build, search []time.Duration
	for b.Loop() {
		words := 0
		floor = append(floor, timed(func() {
			for _, s := range c.Skills {
				words += len(strings.Fields(strings.ToLower(s.Name + " " + s.Description)))
			}
		}))
		snapshot := &skills.Snapshot{Catalog: c}
		build = append(build, timed(func() { snapshot.Search(skills.Query{Text: "k8s"}) }))
		each := make([]time.Duration, 0, len(queries))
		for _, q := range queries {
			each = append(each, timed(func() { snapshot.Search(skills.Query{Text: q.text}) }))
		}
		search = append(search, median(each))
	}
	least := float64(median(floor))
	b.ReportMetric(float64(median(build))/least, "x-floor-index")
	b.ReportMetric(float64(median(search))/least, "x-floor-search")
	b.ReportMetric(float64(median(search).Microseconds())/1000, "ms-search")
	b.ReportMetric(float64(heapOf(func() any {
		s := &skills.Snapshot{Catalog: c}
		s.Search(skills.Query{Text: "k8s"})
		return s
	}))/float64(len(c.Skills)), "heap-B/skill")
}
