package permission_test

import (
	"testing"

	"symbio/security/permission"
)

func TestTrustedFilesAreWrittenByNamingRuleOnly(t *testing.T) {
	chain := permission.Chain{{Policy: policy(t, "default: ask | allow: Write(./*); Bash(tee:*); Bash(cp:*)")}}
	for _, c := range []permission.Call{
		call("Write", "file_path", ".local/state/symbio/skills/trusted/a.json"), call("Write", "file_path", ".config/symbio/symbio.yaml"),
		bash("cp a .local/state/symbio/skills/trusted/a.json"), bash("echo x | tee .config/symbio/symbio.yaml"),
	} {
		if v := chain.Judge(held(c)); !fits(v, permission.Ask) {
			t.Errorf("%v: got %+v, want ask", c.Args, v)
		}
	}
	if v := chain.Judge(call("Write", "file_path", ".local/state/other/a.json")); v.Action != permission.Allow {
		t.Errorf("another program's state: got %+v, want allow", v)
	}
}
