package skills_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/skills"
	"symbio/skills/format"
)

// library is a catalog to look into. Its paths are not on the disk.
func library() skills.Catalog {
	make := func(scope skills.Scope, dir, name, description string, metadata ...string) skills.Skill {
		s := skills.Skill{Manifest: format.Manifest{Name: name, Description: description, Metadata: map[string]string{}}, Scope: scope,
			Dir: dir + "/" + name}
		s.Path, s.ID = s.Dir+"/SKILL.md", s.Dir
		for i := 0; i+1 < len(metadata); i += 2 {
			s.Metadata[metadata[i]] = metadata[i+1]
			s.Manifest.Version = s.Metadata["version"]
		}
		return s
	}
	return skills.Catalog{Skills: []skills.Skill{
		make(skills.ScopeProject, "/repo", "deploy", "Ships the release.", "tags", "ops, release", "version", "2.1"),
		make(skills.ScopeProject, "/repo/cmd/deep", "review", "Reviews changes.", "capabilities", "code.review"),
		make(skills.ScopeProject, "/repo", "review", "Reviews pull requests."),
		make(skills.ScopeUser, "/home", "deploy", "Ships my things.", "tags", "[ops]"),
		make(skills.ScopeUser, "/home", "release-notes", "Draft release notes from commits.", "capabilities", "text.write,code.review"),
		make(skills.ScopeUser, "/home", "release-notes-extra", "More of them."),
		make(skills.ScopeBundled, "bundled:", "tables", "Reads a table, writes a table."),
	}}
}

func found(f skills.SearchResult) (out []string) {
	for _, m := range f.Matches {
		out = append(out, fmt.Sprintf("%s %s", m.Skill.Path, m.Reason))
	}
	return out
}

func TestSearchRanksByHowASkillWasFound(t *testing.T) {
	c := library()
	for about, test := range map[string]struct {
		query skills.Query
		want  []string
	}{
		"a path":                 {skills.Query{Text: "/home/deploy/SKILL.md", Limit: 2}, []string{"/home/deploy/SKILL.md exact_path", "/repo/deploy/SKILL.md token_overlap"}},
		"a directory":            {skills.Query{Text: "/home/release-notes", Limit: 1}, []string{"/home/release-notes/SKILL.md exact_path"}},
		"a name, the nearer one": {skills.Query{Text: "Deploy", Limit: 2}, []string{"/repo/deploy/SKILL.md exact_name", "/home/deploy/SKILL.md exact_name"}},
		"ties by path":           {skills.Query{Text: "review"}, []string{"/repo/cmd/deep/review/SKILL.md exact_name", "/repo/review/SKILL.md exact_name"}},
		"a name before a prefix": {skills.Query{Text: "release-notes", Limit: 3}, []string{"/home/release-notes/SKILL.md exact_name", "/home/release-notes-extra/SKILL.md prefix", "/repo/deploy/SKILL.md token_overlap"}},
		"the closer prefix":      {skills.Query{Text: "rel", Scope: skills.ScopeUser}, []string{"/home/release-notes/SKILL.md prefix", "/home/release-notes-extra/SKILL.md prefix"}},
		"words of either":        {skills.Query{Text: "draft notes", Limit: 2}, []string{"/home/release-notes/SKILL.md token_overlap", "/home/release-notes-extra/SKILL.md token_overlap"}},
		"another form of a word": {skills.Query{Text: "pull request"}, []string{"/repo/review/SKILL.md token_overlap"}},
		"not what says nothing":  {skills.Query{Text: "of the notes"}, []string{"/home/release-notes/SKILL.md token_overlap", "/home/release-notes-extra/SKILL.md token_overlap"}},
		"by a tag":               {skills.Query{Text: "ops", Limit: 2}, []string{"/home/deploy/SKILL.md token_overlap", "/repo/deploy/SKILL.md token_overlap"}},
		"repo means the project": {skills.Query{Text: "deploy", Scope: "repo"}, []string{"/repo/deploy/SKILL.md exact_name"}},
		"only those kept":        {skills.Query{Text: "deploy", Limit: 1, Keep: func(s skills.Skill) bool { return s.Scope == skills.ScopeUser }}, []string{"/home/deploy/SKILL.md exact_name"}},
		"nothing":                {skills.Query{Text: "zebra"}, nil},
		"no word at all":         {skills.Query{Text: "…!?"}, nil},
	} {
		f := c.Search(test.query)
		if d := cmp.Diff(test.want, found(f)); d != "" {
			t.Errorf("%s (-want +got):\n%s", about, d)
		}
		for i := 1; i < len(f.Matches); i++ {
			if f.Matches[i].Score > f.Matches[i-1].Score {
				t.Errorf("%s: scores rise: %v", about, f.Matches)
			}
		}
	}
}

func TestSnapshotIsSearchedByManyAtOnce(t *testing.T) {
	snapshot := &skills.Snapshot{Catalog: library()}
	q := skills.Query{Text: "draft notes of a release"}
	want := library().Search(q)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if d := cmp.Diff(found(want), found(snapshot.Search(q))); d != "" {
				t.Errorf("a snapshot finds other skills than its catalog (-catalog +snapshot):\n%s", d)
			}
		})
	}
	all.Wait()
}

func TestSearchIsLimited(t *testing.T) {
	var c skills.Catalog
	for i := range 120 {
		s := promptEntry(fmt.Sprintf("s-%03d", i), strings.Repeat("word ", 2000))
		c.Skills = append(c.Skills, s)
	}
	for limit, want := range map[int]int{0: 8, -1: 8, 3: 3, 50: 50, 1000: 50} {
		f := c.Search(skills.Query{Text: "word", Limit: limit})
		if len(f.Matches) != want || f.Count != 120 || !f.Truncated {
			t.Errorf("limit %d: %d of %d, truncated = %t; want %d of 120", limit, len(f.Matches), f.Count, f.Truncated, want)
		}
	}
	if f := c.Search(skills.Query{}); f.Count != 120 || f.Matches[0].Reason != "" {
		t.Errorf("no words: %d found; want all", f.Count)
	}
	if f := c.Search(skills.Query{Text: "s-007"}); f.Matches[0].Skill.Name != "s-007" || f.Matches[0].Reason != skills.ExactName {
		t.Errorf("the first is %s by %s", f.Matches[0].Skill.Name, f.Matches[0].Reason)
	}
}

func TestSkillsAreFoundByTagsAndCapabilities(t *testing.T) {
	c := library()
	paths := func(list []skills.Skill) (out []string) {
		for _, s := range list {
			out = append(out, s.Path)
		}
		return out
	}
	for about, test := range map[string]struct{ got, want []string }{
		"a tag":         {paths(c.ByTags("ops")), []string{"/repo/deploy/SKILL.md", "/home/deploy/SKILL.md"}},
		"any of tags":   {paths(c.ByTags("none", "release")), []string{"/repo/deploy/SKILL.md"}},
		"not a part":    {paths(c.ByTags("rel", "")), nil},
		"no tag":        {paths(c.ByTags()), nil},
		"capabilities":  {paths(c.ByCapabilities("code.review")), []string{"/repo/cmd/deep/review/SKILL.md", "/home/release-notes/SKILL.md"}},
		"names, once":   {c.Names(), []string{"deploy", "release-notes", "release-notes-extra", "review", "tables"}},
		"tags of a one": {c.Skills[0].Tags(), []string{"ops", "release"}},
	} {
		if d := cmp.Diff(test.want, test.got); d != "" {
			t.Errorf("%s (-want +got):\n%s", about, d)
		}
	}
	if c.Count() != 7 || !c.Contains("tables") || !c.Contains("deploy") || c.Contains("Deploy") || c.Contains("none") {
		t.Errorf("count = %d, or contains is wrong", c.Count())
	}
	if v := c.Skills[0].Version + c.Skills[1].Version; v != "2.1" {
		t.Errorf("versions %q", v)
	}
}

func TestNameOfSeveralMeansTheFirstByPrecedenceIfSoConfigured(t *testing.T) {
	c := library()
	for name, want := range map[string]string{"deploy": "/repo/deploy/SKILL.md", "review": "/repo/cmd/deep/review/SKILL.md",
		"/repo/review": "/repo/review/SKILL.md", "tables": "bundled:/tables/SKILL.md"} {
		s, err := c.Resolve(name, skills.DuplicatesPrecedence)
		if err != nil || s.Path != want {
			t.Errorf("%s: got %s, %v; want %s", name, s.Path, err, want)
		}
	}
	for _, d := range []skills.Duplicates{skills.DuplicatesAmbiguous, ""} {
		if _, err := c.Resolve("deploy", d); err == nil || !strings.Contains(err.Error(), "/repo/deploy/SKILL.md, /home/deploy/SKILL.md") {
			t.Errorf("%q: got %v, want the paths to choose from", d, err)
		}
	}
	if _, err := c.Resolve("Tables", skills.DuplicatesPrecedence); err == nil || !strings.Contains(err.Error(), `did you mean "tables"?`) {
		t.Errorf("got %v, want what was meant", err)
	}
	got := skills.Render(c, skills.PromptOptions{Duplicates: skills.DuplicatesPrecedence}).Text
	if strings.Count(got, "<skill>") != 5 || strings.Contains(got, "/home/deploy/") || strings.Contains(got, "/repo/review/") {
		t.Errorf("the catalog shows what a name does not mean:\n%s", got)
	}
}

func TestMentionsAreWhatAPersonNames(t *testing.T) {
	for text, want := range map[string][]skills.Mention{
		"use $deploy now": {{Name: "deploy"}},
		"$git-flow":       {{Name: "git-flow"}},
		" $a  x 'y z'\n":  {{Name: "a", Arguments: "x 'y z'"}},
		"`$a` $b x":       {{Name: "b"}},
		"$a " + strings.Repeat("x", skills.MaxArguments): {{Name: "a"}},
		"($a, $b; $c.) $d! $e: \"$f\"":                   {{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}, {Name: "f"}},
		"$a and $a":                                      {{Name: "a", Arguments: "and $a"}},
		"[$a](/x/a/SKILL.md) $a":                         {{Name: "a", Path: "/x/a/SKILL.md", Arguments: "$a"}, {Name: "a"}},
		"[$a](/x":                                        {{Name: "a"}},
		`\$a \\$b`:                                       nil,
		"it costs US$5 and a$b":                          nil,
		"$$a ${a} $(a) $a/b $a=1 $a(1) $a.b $a[0]":       nil,
		"run `echo $a` and ``x ` $b`` but `$c":           {{Name: "c"}},
		"```sh\necho $a\n```\n$b":                        {{Name: "b"}},
		"~~~\n$a\n```\n$b\n~~~~\n$c":                     {{Name: "c"}},
		"````\n```\n$a\n````\n$b":                        {{Name: "b"}},
		"```\n$a":                                        nil,
		"   ```\n$a\n   ```\n$b":                         {{Name: "b"}},
		"    ```\n$a":                                    {{Name: "a"}},
		"$ a $\n$":                                       nil,
		"$навык":                                         {{Name: "навык"}},
		strings.Repeat("$a$", 100):                       nil,
		"$1 $2":                                          {{Name: "1", Arguments: "$2"}, {Name: "2"}},
		"see ($a)[x] and [$b][y]":                        {{Name: "a"}, {Name: "b"}},
		"$a\r\n$b":                                       {{Name: "a", Arguments: "$b"}, {Name: "b"}},
		"mail bob@$host, $user@host, and $c@, $d-!":      {{Name: "host"}, {Name: "d-"}},
	} {
		if d := cmp.Diff(want, skills.Mentions(text, "")); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
	}
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, "$s-%d ", i)
	}
	piped := skills.Mentions("$review it", "\n\n$deploy")
	if d := cmp.Diff([]skills.Mention{{Name: "review", Arguments: "it\n\n$deploy"}}, piped); d != "" {
		t.Errorf("with data behind it (-want +got):\n%s", d)
	}
	if n := len(skills.Mentions(many.String(), "")); n != 16 {
		t.Errorf("%d mentions of one message, want at most 16", n)
	}
}

func FuzzMentions(f *testing.F) {
	for _, s := range []string{"$a", "```\n$a\n```", "`` $a `", "[$a](b)", "\\$a", "~~~\n$"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range skills.Mentions(text, "") {
			if m.Name == "" || !strings.Contains(strings.ToValidUTF8(text, "\uFFFD"), "$"+m.Name) {
				t.Errorf("%q is not named in %q", m.Name, text)
			}
		}
	})
}
