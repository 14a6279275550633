package shell

import (
	"context"
	"path/filepath"
	"slices"

	"symbio/agent/tool"
	"symbio/security/sandbox"
)

// skillDirs are the directories of the skills that the caller has active.
func (r *runner) skillDirs(ctx context.Context) []string {
	if r.cfg.SkillDirs == nil {
		return nil
	}
	return r.cfg.SkillDirs(tool.AgentOf(ctx))
}

// skillVariables tell a script of a skill where it is, when there is one skill that it can be of.
func skillVariables(dirs []string) []string {
	if len(dirs) != 1 {
		return nil
	}
	return []string{"SKILL_DIR=" + dirs[0], "CLAUDE_SKILL_DIR=" + dirs[0]}
}

// showing is the policy with the directories named among what can be read, as far as it can be read anyway: a
// private /tmp would hide one that lies there.
func showing(p sandbox.Policy, dirs []string) sandbox.Policy {
	for _, dir := range dirs {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		readable := sandbox.Meet(p, sandbox.Policy{Files: sandbox.Files{Read: []string{real}}}).Files.Read
		if slices.Contains(readable, real) && !slices.Contains(p.Files.Read, real) {
			p.Files.Read = append(slices.Clone(p.Files.Read), real)
		}
	}
	return p
}
