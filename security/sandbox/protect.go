package sandbox

// gitDir are the protected names in a git directory that is itself a writable place.
var gitDir = []string{"hooks", "config", "config.worktree", "commondir"}

// contents are the names that are masked by a file, with its content. All other names are masked by
// an empty directory: git does not show those, so that they are in no commit, and removing one can
// take nothing with it.
var contents = map[string]string{
	"config":          "",
	"config.worktree": "",
	// A git directory that is its own common directory: as if the file did not exist.
	"commondir": ".\n",
}
