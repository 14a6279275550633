package search_test

import (
	"slices"
	"testing"

	"symbio/internal/skills/search"
)

// documents are the names and descriptions of a small library.
func documents() []search.Document {
	return []search.Document{
		{Name: "image-resize", Description: "Resizes images for the web."},
		{Name: "db-backup", Description: "Takes backups of a database.", Tags: "postgres, ops"},
		{Name: "pre-commit", Description: "Sets up hooks that run before a commit."},
		{Name: "httpServer", Description: "Serves files of a directory."},
		{Name: "pr-review", Description: "Reads a pull request and comments on it.", Triggers: "feedback"},
		{Name: "kubernetes", Description: "Describes the objects of a cluster.", Headings: "Pods Ingress"},
		{Name: "translate", Description: "Translates texts, also Überschriften, into other languages."},
		{Name: "optimization", Description: "Optimizes the colour of a print."},
	}
}

func newIndex(all []search.Document) *search.Index { return search.New(slices.Values(all)) }

func TestIndexFindsTheSameInOtherWords(t *testing.T) {
	all := documents()
	index := newIndex(all)
	for query, want := range map[string]string{
		"resized image":             "image-resize",
		"photos of another size":    "image-resize",
		"how do I back up postgres": "db-backup",
		"precommit":                 "pre-commit",
		"preCommit hook":            "pre-commit",
		"pre commit":                "pre-commit",
		"http server":               "httpServer",
		"http_server":               "httpServer",
		"review a merge request":    "pr-review",
		"feedback":                  "pr-review",
		"k8s":                       "kubernetes",
		"ingres":                    "kubernetes",
		"kuberntes":                 "kubernetes",
		"kuber":                     "kubernetes",
		"imageresize":               "image-resize",
		"überschriften":             "translate",
		"optimise colours":          "optimization",
	} {
		hits := index.Find(query)
		if len(hits) == 0 || all[hits[0].Document].Name != want {
			t.Errorf("%q finds %v, want %s first", query, hits, want)
		}
	}
}

func TestIndexScoresAreOrderedAndBounded(t *testing.T) {
	index := newIndex(documents())
	hits := index.Find("review the images of a commit, serve the directory, back up a database")
	if len(hits) < 4 {
		t.Fatalf("%d hits", len(hits))
	}
	for i, h := range hits {
		if h.Score <= 0 || h.Score > 1 || i > 0 && h.Score > hits[i-1].Score {
			t.Errorf("hit %d has the score %v: %v", i, h.Score, hits)
		}
	}
}

func TestIndexFindsNothing(t *testing.T) {
	for about, query := range map[string]string{"no words": " …!? ", "unknown words": "zzyzx qqq", "nothing": ""} {
		if hits := newIndex(documents()).Find(query); len(hits) > 0 {
			t.Errorf("%s: %v", about, hits)
		}
	}
	if hits := newIndex(nil).Find("image"); len(hits) > 0 {
		t.Errorf("no documents: %v", hits)
	}
}

func TestIndexPrefersMoreOfTheWords(t *testing.T) {
	all := []search.Document{
		{Name: "a", Description: "invoice invoice invoice invoice"},
		{Name: "b", Description: "scan an invoice with a camera"},
		{Name: "c", Description: "scan with a camera"},
	}
	if hits := newIndex(all).Find("scan the invoice"); len(hits) == 0 || hits[0].Document != 1 {
		t.Errorf("found %v, want document 1 first", hits)
	}
}

func FuzzFind(f *testing.F) {
	f.Add("pre-commit HTTPServer k8s", "preCommit ünï 技能 a_b/c.d e2e2e 1st")
	f.Add("\xff\xfe A\xc3", "x\x00y ıİ ﬁ ß")
	f.Fuzz(func(t *testing.T, text, query string) {
		for _, h := range newIndex([]search.Document{{Name: text, Description: query}, {Description: text, Tags: text}}).Find(query) {
			if h.Document < 0 || h.Document > 1 || !(h.Score > 0 && h.Score <= 1) {
				t.Errorf("%v", h)
			}
		}
	})
}
