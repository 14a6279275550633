package shell

import (
	"context"
	"path/filepath"
	"slices"

	"symbio/agent/tool"
	"symbio/security/sandbox"
)

// skillDirs returns the directories of the skills that are active for the calling agent.
func (r *runner) skillDirs(ctx context.Context) []string {
	if r.cfg.SkillDirs == nil {
		return nil
	}
	return r.cfg.SkillDirs(tool.AgentOf(ctx))
}

// skillVariables returns the variables that tell a script the directory of its skill, if there is
// only one.
func skillVariables(dirs []string) []string {
	if len(dirs) != 1 {
		return nil
	}
	return []string{"SKILL_DIR=" + dirs[0], "CLAUDE_SKILL_DIR=" + dirs[0]}
}

// showing adds dirs to the directories that policy p lets commands read, if the policy allows them
// at all. It is needed because the sandbox's private /tmp would hide a directory there.
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
