package cli

import (
	"strings"
	"testing"

	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/node/doctor"
)

func TestFindingsAreForPeopleOrForScripts(t *testing.T) {
	found := []doctor.Finding{
		{Check: "clock", Status: doctor.OK, Detail: "it is right"},
		{Check: "peer", Status: doctor.Fail, Detail: "a name from afar: \x1b[31mred", Fix: "start it"},
	}
	for name, test := range map[string]struct {
		app  command.Env
		want string
	}{
		"terminal": {command.Env{OutIsTerminal: true}, "ok    clock          it is right\n" +
			"fail  peer           a name from afar: [31mred\n" +
			"                       fix: start it\n" +
			"\n1 ok, 0 warnings, 1 failed\n"},
		"pipe": {command.Env{}, "ok\tclock\tit is right\t-\nfail\tpeer\ta name from afar: [31mred\tstart it\n"},
		"json": {command.Env{JSON: true}, `[{"check":"clock","status":"ok","detail":"it is right","fix":""},` +
			`{"check":"peer","status":"fail","detail":"a name from afar: \u001b[31mred","fix":"start it"}]` + "\n"},
	} {
		var out strings.Builder
		test.app.Out = &out
		if err := printFindings(&test.app, found); err != nil {
			t.Fatal(err)
		}
		if out.String() != test.want {
			t.Errorf("%s: printed\n%q\nwant\n%q", name, out.String(), test.want)
		}
	}
}
