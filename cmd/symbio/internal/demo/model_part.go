package demo

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"symbio/agent/llm"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
)

// notesRequest is given to the first sub-agent besides its part. Its tools do not allow writing, so
// the tour shows a denial.
const notesRequest = "Keep notes in the file notes.md."

// summaryFiles is a glob of the files that may say in a sentence what a part is for. Sources come
// last, because their first comment often does.
const summaryFiles = "{README,README.*,Readme.*,readme.*,doc.go,SKILL.md,main.*,index.*,__init__.py,lib.rs,package.json," +
	"*.md,*.go,*.proto,*.py,*.c,*.h,*.rs,*.js,*.ts,*.sh}"

// surveyPart returns the next turn of the agent that surveys one part: count, read the best file,
// describe.
func (c *conversation) surveyPart(part string) turn {
	switch {
	case c.turns == 0:
		return turn{Calls: c.countPart(part)}
	case c.turns == 1 && slices.ContainsFunc(c.last, func(r toolResult) bool { return topFiles().MatchString(r.Text) }):
		return turn{Calls: []llm.ToolCall{call("Read", object{"file_path": c.bestSummaryFile(), "limit": 40})}}
	}
	return turn{Text: encode(c.describe(part))}
}

// countPart returns the calls that count the lines of a part by kind, by file, and with TODO, and
// look for a file that describes it.
func (c *conversation) countPart(part string) []llm.ToolCall {
	glob, pattern := "", "{,*/,*/*/}"+summaryFiles
	if part == "." {
		glob, pattern = "./*", summaryFiles
	}
	count := func(more object) llm.ToolCall {
		more["path"], more["glob"], more["output_mode"] = part, glob, "count"
		return call("Grep", more)
	}
	calls := []llm.ToolCall{
		call("activate_skill", object{"skillName": "survey-directory"}),
		count(object{"pattern": `\n`, "multiline": true, "group_by": "extension", "head_limit": 500}),
		count(object{"pattern": `\n`, "multiline": true, "group_by": "file", "head_limit": 5}),
		count(object{"pattern": "TODO|FIXME", "group_by": "none"}),
		call("Glob", object{"pattern": pattern, "path": part}),
	}
	if strings.Contains(c.task, notesRequest) {
		calls = append(calls, call("Write", object{"file_path": "notes.md", "content": "Notes on " + part}))
	}
	return calls
}

var (
	foundFile  = lazyregexp.New("(?m)^[^#\n\t]+$")
	readmeFile = lazyregexp.New(`(?i)(^|/)(readme|doc\.go|skill\.md)`)
	unlikely   = lazyregexp.New(`_test\.|^\.|/\.`)
)

// bestSummaryFile returns the listed file that most likely says what the part is for: near the top,
// and a README before others; tests and hidden files last.
func (c *conversation) bestSummaryFile() string {
	listing := c.resultsOf("Glob")
	rank := func(file string) int {
		n := 10 * strings.Count(file, "/")
		switch {
		case readmeFile().MatchString(file):
			n -= 15
		case unlikely().MatchString(file):
			n += 5
		}
		return n
	}
	files := foundFile().FindAllString(listing[len(listing)-1].Text, -1)
	if len(files) == 0 {
		return "README"
	}
	return slices.MinFunc(files, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
}

// describe returns the part from the counts and the file that was read. A failed count gives a part
// with an error.
func (c *conversation) describe(part string) Part {
	p := Part{Part: part}
	counts := c.resultsOf("Grep")
	if len(counts) < 3 || counts[0].IsError {
		p.Error = "it was not counted"
		if len(counts) > 0 {
			p.Error = counts[0].Text
		}
		return p
	}
	kinds, total := rows(counts[0].Text)
	for _, k := range kinds {
		p.Kinds = append(p.Kinds, Kind{Kind: k.name, Files: k.files, Lines: k.lines})
	}
	files, _ := rows(counts[1].Text)
	for _, f := range files {
		p.Longest = append(p.Longest, File{File: f.name, Lines: f.lines})
	}
	_, todos := rows(counts[2].Text)
	p.Files, p.Lines, p.Todos = total.files, total.lines, todos.lines
	for _, r := range c.resultsOf("Read") {
		p.What = firstSentence(r.Text)
	}
	switch {
	case p.What != "":
	case len(p.Kinds) > 0:
		p.What = "mostly " + p.Kinds[0].Kind
	default:
		p.What = "files that say nothing of themselves"
	}
	return p
}

// row is one row of a count by the tool Grep: a name, and the files and lines with a match.
type row struct {
	name         string
	files, lines int
}

// rows returns the rows of a count and its total. Lines that are no rows, such as notes of the
// tool, are skipped.
func rows(text string) (list []row, total row) {
	for line := range strings.Lines(text) {
		columns := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if len(columns) != 4 {
			continue
		}
		files, errFiles := strconv.Atoi(columns[1])
		lines, errLines := strconv.Atoi(columns[3])
		switch r := (row{columns[0], files, lines}); {
		case errFiles != nil || errLines != nil:
		case r.name == "total":
			total = r
		default:
			list = append(list, r)
		}
	}
	return list, total
}

var (
	lineNumber = lazyregexp.New(`^\s*[0-9]+\t`)
	// marks are what comments, headings and HTML put around a sentence.
	marks = lazyregexp.New("^[\\s/*#<>!\"'=;%-]+|[*_`\\[\\]]|<[^>]*>|[\\s*>-]+$")
	// noSentence finds lines that do not describe anything: licences, badges, imports, code, links.
	noSentence = lazyregexp.New(`(?i)copyright|licen[cs]e|spdx|badge|^import|^from |[{}]$|://`)
)

// firstSentence returns the first line of at least four words in the output of Read that describes
// something, without the marks of comments and headings, cut to 160 characters; "" if there is
// none.
func firstSentence(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(marks().ReplaceAllString(lineNumber().ReplaceAllString(strings.TrimRight(line, "\r\n"), ""), ""))
		if len(strings.Fields(line)) < 4 || noSentence().MatchString(line) {
			continue
		}
		return visible.TruncateRunes(line, 161)
	}
	return ""
}
