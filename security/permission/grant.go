package permission

import "strings"

// skillDirs are the names by which a skill writes its own directory: of the agents that read
// skills, some know the one and some the other. Messages use the first.
var skillDirs = [...]string{"${SKILL_DIR}", "${CLAUDE_SKILL_DIR}"}

// ParseGrant reads a rule that a SKILL.md asks for: the grammar of ParseRule, but narrower
// (skills.md, "Decided" and 4.3):
//
//   - The tool is named literally, or is one server's MCP tools (mcp__SERVER__*).
//   - Every command, Bash or Bash(*), is not granted.
//   - A path is below the working directory or below the skill's own, written ${SKILL_DIR}/… or
//     ${CLAUDE_SKILL_DIR}/…. Such a rule means nothing until WithSkillDir has set the directory.
//   - A command's name means that very name: git:* does not mean git-lfs (C31).
//
// The error is a *RuleError.
func ParseGrant(text string) (Rule, error) {
	tool, spec, err := splitRule(text)
	if err != nil {
		return Rule{}, err
	}
	bad := func(at int, reason string) (Rule, error) { return Rule{}, ruleError(text, at, reason) }
	if star := strings.Index(tool, "*"); star >= 0 {
		server, _, ok := strings.Cut(strings.TrimPrefix(tool, "mcp__"), "__")
		if !strings.HasPrefix(tool, "mcp__") || !ok || server == "" || strings.Contains(server, "*") {
			return bad(star, "a skill has to name the tool: * may only stand after mcp__SERVER__")
		}
	}
	m := subjectOf(tool).matter
	if m == matterCommand && strings.Trim(spec, "* :") == "" || (m == matterCommand || m == matterGit) && strings.HasPrefix(spec, boxMark) {
		return bad(0, "a skill is not granted every command: name the command, as in Bash(git status)")
	}
	// Only paths have a base of their own. All other specs are read as in a configuration.
	if m != matterPath || spec == "" {
		r, err := ParseRule(text)
		r.granted = err == nil
		return r, err
	}
	below, skillDir := cutSkillDir(spec)
	ofSkill := skillDir != ""
	if ofSkill {
		if below != "" && below[0] != '/' {
			return bad(len(tool)+1+len(skillDir), "a / has to follow "+skillDir)
		}
		spec = "." + below
	}
	path, at, reason := parsePath(spec)
	if reason != "" {
		return bad(len(tool)+1+at, reason)
	}
	if path.base == baseRoot || path.base == baseHome {
		return bad(len(tool)+1, "a skill may only name paths below the working directory or "+skillDirs[0])
	}
	for part := range strings.SplitSeq(path.text, "/") {
		if part == ".." {
			return bad(len(tool)+1, "a skill's path may not hold ..")
		}
	}
	if ofSkill {
		path.base = baseSkill
	}
	return Rule{text: text, tool: tool, form: formPath, spec: spec, path: path, granted: true}, nil
}

// cutSkillDir cuts the skill's directory off the beginning of a path or of a text. name is how it
// was written, "" if the path does not begin with it; then below is the path.
func cutSkillDir(path string) (below, name string) {
	for _, name := range skillDirs {
		if below, ok := strings.CutPrefix(path, name); ok {
			return below, name
		}
	}
	return path, ""
}

// RunsSkillFiles reports whether the rule is for commands and names the skill's own directory
// outside of single quotes, so that allowing it means to run files of the skill.
func (r Rule) RunsSkillFiles() bool {
	switch r.form {
	case formExact, formPrefix, formOperands:
		return inShell(r.spec, "") != r.spec
	}
	return false
}

// WithSkillDir returns the rule with ${SKILL_DIR} and ${CLAUDE_SKILL_DIR} standing for dir, an
// absolute path. Of a rule without them, it returns the rule itself. The text of the rule stays
// as it was written.
func (r Rule) WithSkillDir(dir string) Rule {
	switch r.form {
	case formPath:
		if r.path.base == baseSkill {
			r.path.dir = dir
		}
	case formExact, formPrefix, formOperands:
		whole := r.spec
		if r.spec = inShell(whole, dir); r.spec == whole {
			return r
		}
		// The words are read from the quoted form, so that a blank or $ in dir stays one literal
		// part of its word. The spec then gets dir as it is, for comparisons with a text.
		r.words = commandWords(r.tool, r.spec, r.form)
		for _, name := range skillDirs {
			whole = strings.ReplaceAll(whole, name, dir)
		}
		r.spec = whole
	}
	return r
}

// inShell replaces the skill's directory in a command by dir, quoted as the place needs it:
// between double quotes only the special characters are escaped, elsewhere the whole is quoted.
// Inside single quotes a shell leaves the name as it is, and so does inShell.
func inShell(command, dir string) string {
	var b strings.Builder
	var quote byte
	for i := 0; i < len(command); {
		if below, name := cutSkillDir(command[i:]); name != "" && quote != '\'' {
			if quote == '"' {
				b.WriteString(inQuotes.Replace(dir))
			} else {
				b.WriteString(quoted(dir))
			}
			i = len(command) - len(below)
			continue
		}
		c := command[i]
		switch {
		// The escaped character begins or ends no quotes.
		case c == '\\' && quote != '\'' && i+1 < len(command):
			b.WriteByte(c)
			i++
			c = command[i]
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		}
		b.WriteByte(c)
		i++
	}
	return b.String()
}

// inQuotes escapes what a shell reads between double quotes.
var inQuotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`")
