package command

import "testing"

func TestApprovalShowsWholeCommand(t *testing.T) {
	for args, want := range map[string]string{
		`{"command":"echo a \u0026\u0026 b\nrm x\u202e"}`: "  echo a && b\n  rm x\\u202e",
		`{"command":"log","args":["-p"]}`:                 `  {"args":["-p"],"command":"log"}`,
		`{"file_path":"<a>"}`:                             `  {"file_path":"<a>"}`,
		`{"n":12345678901234567890}`:                      `  {"n":12345678901234567890}`,
		`not json`:                                        "  not json",
	} {
		if got := CallText("Bash", []byte(args)); got != want {
			t.Errorf("%s is shown as\n%s\nwant\n%s", args, got, want)
		}
	}
}
