package skills

import (
	"cmp"
	"slices"
	"strings"

	"symbio/internal/skills/search"
)

// MatchReason is why a skill matches a query.
type MatchReason string

// The reasons, best first.
const (
	// ExactPath: the query is the path of the SKILL.md or of its directory.
	ExactPath MatchReason = "exact_path"
	// ExactName: the query is the name, in any case.
	ExactName MatchReason = "exact_name"
	// Prefix: the name begins with the query.
	Prefix MatchReason = "prefix"
	// TokenOverlap: words of the query, or words that mean the same, occur in the name, the tags or
	// the description.
	TokenOverlap MatchReason = "token_overlap"
)

// The scores. A better reason always has a higher score than a worse one.
const (
	scorePath    = 1000
	scoreName    = 900
	scorePrefix  = 700 // and up to 100 more, the more of the name the query is
	scoreOverlap = 600 // at most
)

// Query selects skills of a catalog.
type Query struct {
	// Text is a path, a name, the beginning of a name, or words. "" matches every skill, without a
	// reason.
	Text string
	// Limit is the largest number of results. Default 8, which a model reads at a glance. At most
	// 50.
	Limit int
	// Scope restricts the search to one scope if it is set. "repo" is
	// ScopeProject.
	Scope Scope
	// Keep leaves out the skills for which it returns false.
	Keep func(Skill) bool
}

const (
	defaultSearchLimit = 8
	maxSearchLimit     = 50
)

// Match is a skill that matches a query.
type Match struct {
	Skill  Skill       `json:"skill"`
	Score  int         `json:"score"`
	Reason MatchReason `json:"reason"`
}

// SearchResult is the result of a search, best match first. Equal matches are ordered by scope and
// path.
type SearchResult struct {
	Matches []Match `json:"matches"`
	// Count is the number of matches. Truncated is true if Matches has fewer.
	Count     int  `json:"count"`
	Truncated bool `json:"truncated"`
}

// Search finds skills by path, name and words. It uses only the catalog and does not read the disk.
// Snapshot.Search is faster when there is more than one query.
func (c Catalog) Search(q Query) SearchResult { return c.search(q, c.newIndex()) }

// newIndex returns an index of the words of all skills.
func (c Catalog) newIndex() *search.Index {
	return search.New(func(yield func(search.Document) bool) {
		for _, s := range c.Skills {
			if !yield(s.document()) {
				return
			}
		}
	})
}

// document returns the texts by which the skill is found.
func (s Skill) document() search.Document {
	triggers := slices.Concat(s.Triggers.Keywords, s.Triggers.Verbs)
	return search.Document{Name: s.Name, Description: s.Description, Tags: s.Metadata["tags"], Triggers: strings.Join(triggers, ", ")}
}

// search finds skills with the index of the catalog.
func (c Catalog) search(q Query, index *search.Index) SearchResult {
	if q.Limit <= 0 {
		q.Limit = defaultSearchLimit
	}
	q.Limit = min(q.Limit, maxSearchLimit)
	if q.Scope == "repo" {
		q.Scope = ScopeProject
	}
	text := strings.TrimSpace(q.Text)
	overlap := make([]float64, len(c.Skills))
	for _, h := range index.Find(text) {
		overlap[h.Document] = h.Score
	}
	var found []foundSkill
	for i, s := range c.Skills {
		if score, reason := s.score(text, overlap[i]); (score > 0 || text == "") && q.selects(s) {
			found = append(found, foundSkill{i, score, reason})
		}
	}
	slices.SortStableFunc(found, func(a, b foundSkill) int {
		x, y := &c.Skills[a.index], &c.Skills[b.index]
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(x.Scope.rank(), y.Scope.rank()), cmp.Compare(x.Path, y.Path), cmp.Compare(a.index, b.index))
	})
	f := SearchResult{Matches: []Match{}, Count: len(found), Truncated: len(found) > q.Limit}
	for _, m := range found[:min(len(found), q.Limit)] {
		f.Matches = append(f.Matches, Match{c.Skills[m.index], int(m.score), m.reason})
	}
	return f
}

// selects reports whether the query is about the skill, whatever its text is.
func (q Query) selects(s Skill) bool {
	return (q.Scope == "" || s.Scope == q.Scope) && (q.Keep == nil || q.Keep(s))
}

// foundSkill is the skill of the catalog with that index, and how it was found.
type foundSkill struct {
	index  int
	score  float64
	reason MatchReason
}

// score rates how well the skill matches; 0 is no match. overlap is how well its words do, 0 to 1.
func (s Skill) score(text string, overlap float64) (float64, MatchReason) {
	name, lower := strings.ToLower(s.Name), strings.ToLower(text)
	switch {
	case text == "":
		return 0, ""
	case text == s.Path || text == s.Dir:
		return scorePath, ExactPath
	case lower == name:
		return scoreName, ExactName
	case strings.HasPrefix(name, lower):
		return scorePrefix + 100*float64(len(lower))/float64(len(name)), Prefix
	case overlap > 0:
		return 1 + (scoreOverlap-1)*overlap, TokenOverlap
	}
	return 0, ""
}
