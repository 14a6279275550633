package skills

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// MatchReason is why a skill matches a query.
type MatchReason string

// The reasons, best first (spec: skills-codelia.md 5.5).
const (
	// ExactPath: the query is the path of the SKILL.md or of its directory.
	ExactPath MatchReason = "exact_path"
	// ExactName: the query is the name, in any case.
	ExactName MatchReason = "exact_name"
	// Prefix: the name begins with the query.
	Prefix MatchReason = "prefix"
	// TokenOverlap: words of the query occur in the name or the description.
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
	// Scope restricts the search to one scope if it is set. "repo", the word of the spec, is
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
func (c Catalog) Search(q Query) SearchResult {
	if q.Limit <= 0 {
		q.Limit = defaultSearchLimit
	}
	q.Limit = min(q.Limit, maxSearchLimit)
	if q.Scope == "repo" {
		q.Scope = ScopeProject
	}
	text := strings.TrimSpace(q.Text)
	words := significantWords(tokens(text))
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
	f := SearchResult{Matches: matches, Count: len(matches), Truncated: len(matches) > q.Limit}
	f.Matches = matches[:min(len(matches), q.Limit)]
	return f
}

// score rates how well the skill matches; 0 is no match.
func (s Skill) score(text string, words []string) (int, MatchReason) {
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
		sum += max(2*matchWord(w, inName), matchWord(w, inText))
	}
	if sum == 0 {
		return 0, ""
	}
	return max(1, scoreOverlap*sum/(4*len(words))), TokenOverlap
}

// matchWord returns 2 if word is among the words, 1 if one of them begins with it or the reverse,
// else 0. Three letters are the least for that: shorter words begin too many others.
func matchWord(word string, among []string) (best int) {
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

// common are words that do not say what a skill is for.
var common = map[string]bool{
	"a": true, "an": true, "and": true, "for": true, "in": true, "is": true, "of": true, "on": true, "or": true, "the": true, "to": true, "use": true, "when": true, "with": true,
}

// significantWords returns the words without the common ones, or all if none is left.
func significantWords(words []string) []string {
	left := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return common[w] })
	if len(left) == 0 {
		return words
	}
	return left
}

// maxTokens limits the work for a long query or description.
const maxTokens = 200

// tokens returns the distinct words of a text in lower case.
func tokens(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	words = words[:min(len(words), maxTokens)]
	slices.Sort(words)
	return slices.Compact(words)
}
