// Package lint tells the author of a skill what a program that loads skills does not mind: a
// description that no model can choose by, files and tools that do not exist, scripts that do not
// start.
//
// The one idea: a finding is a diagnostic of package format with a code and a line, and never an
// Error, so that it cannot keep a skill from being used.
package lint

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
	"symbio/security/permission"
	"symbio/skills"
	"symbio/skills/format"
)

// Config says what a check compares a skill with.
type Config struct {
	// Policy is how the skill is read.
	Policy format.Policy
	// Tools are the names that rules may have. Default: no name is reported.
	Tools []string
	// Tokens estimates the size of a text for a model. Default: no text is too long.
	Tokens func(text string) int
}

// maxTokens is the size of instructions that the specification recommends, in tokens.
const maxTokens = 5000

// minDescription is the shortest description that can say what a skill does and when, in characters.
const minDescription = 40

// Check returns what an author should change in the skill in dir, by line. It returns nothing for a
// skill that cannot be loaded. It reads the skill's files, and opens nothing outside of dir.
func Check(dir string, c Config) []format.Diagnostic {
	skill, body, _, err := skills.LoadFull(dir, c.Policy)
	root, missing := os.OpenRoot(dir)
	if err != nil || missing != nil {
		return nil
	}
	defer root.Close()
	whole, err := skill.Resource(path.Base(skill.Path))
	if err != nil {
		return nil
	}
	l := linter{cfg: c, skill: skill, lines: strings.Split(whole, "\n")}
	l.first = len(l.lines) - strings.Count(body, "\n") // of the body
	l.description()
	l.tools()
	l.found = append(l.found, format.Foreign(skill.Manifest)...)
	if c.Tokens != nil && c.Tokens(body) > maxTokens {
		l.add(format.CodeBodyLong, "", l.first, "the instructions have about %d tokens; move what is rarely needed to references/, because an agent reads all of them (%d are recommended)", c.Tokens(body), maxTokens)
	}
	l.files(root, body)
	l.scripts(root)
	for i, d := range l.found {
		if d.Field != "" {
			l.found[i].Line = 1 + slices.IndexFunc(l.lines, func(line string) bool { return strings.HasPrefix(strings.Trim(line, `"'`), d.Field) })
		}
	}
	return l.found
}

// linter checks one skill.
type linter struct {
	cfg   Config
	skill skills.Skill
	// lines are the lines of the SKILL.md, and first is the number of the first one of the body.
	lines []string
	first int
	found []format.Diagnostic
}

// add adds a warning.
func (l *linter) add(code format.Code, field string, line int, text string, args ...any) {
	l.found = append(l.found, format.Diagnostic{Code: code, Severity: format.Warning, Field: field, Line: line, Message: visible.Escape(fmt.Sprintf(text, args...))})
}

// occasion matches the words with which a description says when to use the skill.
var occasion = lazyregexp.New(`(?i)\b(when|whenever|if|before|after|while|for|use|used|asked)\b`)

// description checks that a model can choose by the description. Whether it names an occasion is
// judged in English only.
func (l *linter) description() {
	text := l.skill.Description
	switch n := utf8.RuneCountInString(text); {
	case strings.IndexFunc(text, func(r rune) bool { return r > 0x24f }) >= 0: // another script
	case n < minDescription:
		l.add(format.CodeVague, "description", 0, "the description has %d characters; say what the skill does and when to use it, because agents choose by it", n)
	case !occasion().MatchString(text):
		l.add(format.CodeVague, "description", 0, "the description does not say when to use the skill; add a sentence such as: Use it when …")
	}
}

// tools reports rules for tools that do not exist, and rules that no call can match.
func (l *linter) tools() {
	for _, rule := range l.skill.AllowedTools {
		if err := (permission.Tools{Names: l.cfg.Tools}).Check(rule); err != nil {
			l.add(format.CodeUnknownTool, "allowed-tools", 0, "%v", err)
		} else if r, err := permission.ParseGrant(rule); err == nil && r.WithSkillDir(l.skill.Dir).CheckMatches(false) != nil {
			l.add(format.CodeGrantRefused, "allowed-tools", 0, "%v", r.CheckMatches(false))
		}
	}
}

// mention matches the files that a body names: the targets of links, and paths in the directories of
// a skill.
var mention = lazyregexp.New(`\]\(<?([^()\s<>#?]+)[^()]*\)|(?:^|[\s"'(=` + "`" + `]|DIR\}/|baseDir\}/|\./)((?:scripts|references?|assets)/[\w./-]*[\w-])`)

// files reports files that the body names and that do not exist in the skill.
func (l *linter) files(root *os.Root, body string) {
	seen := map[string]bool{}
	for i, line := range strings.Split(body, "\n") {
		for _, m := range mention().FindAllStringSubmatch(line, -1) {
			name := path.Clean(m[1] + m[2])
			if seen[name] || strings.ContainsAny(name, `:${*`) || path.IsAbs(name) {
				continue
			}
			seen[name] = true
			if _, err := root.Stat(name); err != nil {
				l.add(format.CodeFileMissing, "", l.first+i, "the file %s is named, but the skill has no such file", visible.TruncateRunes(name, 200))
			}
		}
	}
}

// scriptNames matches the files of scripts/ that are run.
var scriptNames = lazyregexp.New(`^[^.]+(\.(sh|bash|py|rb|pl|js|mjs))?$`)

// scripts reports scripts that cannot be started by their name. One without both the bit and the
// first line is likely a module.
func (l *linter) scripts(root *os.Root) {
	entries, _ := fs.ReadDir(root.FS(), "scripts") // none if they cannot be read
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !scriptNames().MatchString(e.Name()) {
			continue
		}
		name := "scripts/" + e.Name()
		executable, interpreted := info.Mode()&0o111 != 0, startsWithInterpreter(root, name)
		if interpreted && !executable {
			l.add(format.CodeNotExecutable, "", 0, "%s cannot be started: chmod +x %s", name, name)
		} else if !interpreted && (executable || path.Ext(name) == ".sh") {
			l.add(format.CodeNoInterpreter, "", 0, "%s does not say what runs it: begin it with a line such as #!/bin/sh", name)
		}
	}
}

// startsWithInterpreter reports whether a file begins with #!, or is a program itself.
func startsWithInterpreter(root *os.Root, name string) bool {
	f, err := root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [2]byte
	_, err = f.Read(head[:])
	return err == nil && slices.Contains([]string{"#!", "\x7fE", "MZ"}, string(head[:]))
}
