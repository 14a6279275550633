package permission

import "strings"

// ParseGrant reads a rule that a SKILL.md asks for: the grammar of ParseRule, but narrower (skills.md,
// "Decided" and 4.3). The tool is named literally, or is one server's MCP tools (mcp__SERVER__*);
// every command, Bash or Bash(*), is not granted; a path is below the working directory or below the
// skill's own, written ${CLAUDE_SKILL_DIR}/…; git:* does not mean git-x. A rule with ${CLAUDE_SKILL_DIR} means nothing until
// WithSkillDir has said where that is. The error is a *RuleError.
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
	if subjectOf(tool).matter == matterCommand && strings.Trim(spec, "* :") == "" {
		return bad(0, "a skill is not granted every command: name the command, as in Bash(git status)")
	}
	if subjectOf(tool).matter != matterPath || spec == "" {
		r, err := ParseRule(text)
		r.undashed = err == nil
		return r, err
	}
	below, ofSkill := strings.CutPrefix(spec, skillDir)
	r := newRule(text, tool, spec)
	if ofSkill {
		if below != "" && below[0] != '/' {
			return bad(len(tool)+1+len(skillDir), "a / has to follow "+skillDir)
		}
		r.spec = "." + below
	}
	if at, reason := r.readPath(); reason != "" {
		return bad(len(tool)+1+at, reason)
	}
	if r.base == baseRoot || r.base == baseHome {
		return bad(len(tool)+1, "a skill may only name paths below the working directory or "+skillDir)
	}
	for part := range strings.SplitSeq(r.spec, "/") {
		if part == ".." {
			return bad(len(tool)+1, "a skill's path may not hold ..")
		}
	}
	if ofSkill {
		r.base = baseSkill
	}
	return r, nil
}

// WithSkillDir is the rule with ${CLAUDE_SKILL_DIR} standing for dir, an absolute path. Of a rule
// without it, it is the rule itself.
func (r Rule) WithSkillDir(dir string) Rule {
	switch r.form {
	case formPath:
		if r.base == baseSkill {
			r.dir = dir
		}
	case formExact, formPrefix, formOperands:
		if !strings.Contains(r.spec, skillDir) {
			return r
		}
		whole := strings.ReplaceAll(r.spec, skillDir, dir)
		r.spec = strings.ReplaceAll(r.spec, skillDir, quoted(dir))
		r.readProgram(false)
		r.spec = whole
	}
	return r
}
