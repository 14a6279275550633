package skills

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Reason says why a skill was found.
type Reason string

// The reasons, best first (spec: skills-codelia.md 5.5).
const (
	ExactPath    Reason = "exact_path"
	ExactName    Reason = "exact_name"
	Prefix       Reason = "prefix"
	TokenOverlap Reason = "token_overlap"
)

// Scores of the reasons. One of a better reason is never below one of a worse.
const (
	scorePath    = 1000
	scoreName    = 900
	scorePrefix  = 700 // and up to 100 more, the more of the name the query is
	scoreOverlap = 600 // at most
)

// Query is what to look for among skills.
type Query struct {
	// Text is a path, a name, the beginning of a name, or words. "" finds every skill, without a reason.
	Text string
	// Limit is how many are returned. Default 8: what a model reads at a glance. At most 50.
	Limit int
	// Scope, if set, is the only one that counts. "repo", as the spec has it, is ScopeProject.
	Scope Scope
	// Keep, if set, is asked of each skill.
	Keep func(Skill) bool
}

const (
	defaultFound = 8
	mostFound    = 50
)

// Match is a skill that was found.
type Match struct {
	Skill  Skill  `json:"skill"`
	Score  int    `json:"score"`
	Reason Reason `json:"reason"`
}

// Found is what a search found, the best first; of equals the one of the nearer scope, then by path.
type Found struct {
	Matches []Match `json:"matches"`
	// Count is how many there are, Truncated whether that is more than Matches holds.
	Count     int  `json:"count"`
	Truncated bool `json:"truncated"`
}

// Search looks for skills by path, name and words. It reads nothing but the catalog.
func (c Catalog) Search(q Query) Found {
	if q.Limit <= 0 {
		q.Limit = defaultFound
	}
	q.Limit = min(q.Limit, mostFound)
	if q.Scope == "repo" {
		q.Scope = ScopeProject
	}
	text := strings.TrimSpace(q.Text)
	words := telling(tokens(text))
	matches := []Match{}
	for _, s := range c.Skills {
		if q.Scope != "" && s.Scope != q.Scope || q.Keep != nil && !q.Keep(s) {
			continue
		}
		if score, reason := s.score(text, words); score > 0 || text == "" {
			matches = append(matches, Match{s, score, reason})
		}
	}
	slices.SortStableFunc(matches, func(a, b Match) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Skill.Scope.rank(), b.Skill.Scope.rank()), cmp.Compare(a.Skill.Path, b.Skill.Path))
	})
	f := Found{Matches: matches, Count: len(matches), Truncated: len(matches) > q.Limit}
	f.Matches = matches[:min(len(matches), q.Limit)]
	return f
}

// score rates how well the skill fits; 0 = not at all.
func (s Skill) score(text string, words []string) (int, Reason) {
	name, lower := strings.ToLower(s.Name), strings.ToLower(text)
	switch {
	case text == "":
		return 0, ""
	case text == s.Path || text == s.Dir:
		return scorePath, ExactPath
	case lower == name:
		return scoreName, ExactName
	case strings.HasPrefix(name, lower):
		return scorePrefix + 100*len(lower)/len(name), Prefix
	case len(words) == 0:
		return 0, ""
	}
	inName, inText := tokens(s.Name), tokens(s.Description)
	sum := 0 // in halves; a word of the name is worth two of the description
	for _, w := range words {
		sum += max(2*fits(w, inName), fits(w, inText))
	}
	if sum == 0 {
		return 0, ""
	}
	return max(1, scoreOverlap*sum/(4*len(words))), TokenOverlap
}

// fits is 2 for a word that is there, 1 for one of which another form is.
func fits(word string, among []string) (best int) {
	for _, w := range among {
		switch {
		case w == word:
			return 2
		case min(len(w), len(word)) >= 3 && (strings.HasPrefix(w, word) || strings.HasPrefix(word, w)):
			best = 1
		}
	}
	return best
}

// common are words that say nothing of what a skill is for.
var common = map[string]bool{
	"a": true, "an": true, "and": true, "for": true, "in": true, "is": true, "of": true, "on": true, "or": true, "the": true, "to": true, "use": true, "when": true, "with": true,
}

// telling are the words that say something; all when none does.
func telling(words []string) []string {
	left := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return common[w] })
	if len(left) == 0 {
		return words
	}
	return left
}

// mostTokens bounds the work for a query or description that is nothing but words.
const mostTokens = 200

// tokens are the words of a text in lower case, each once.
func tokens(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	words = words[:min(len(words), mostTokens)]
	slices.Sort(words)
	return slices.Compact(words)
}
