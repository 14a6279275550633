package command

import "testing"

func TestApprovalShowsWholeCommand(t *testing.T) {
	for args, want := range map[string]string{
		`{"command":"echo a \u0026\u0026 b\nrm x\u202e"}`: "  echo a && b\n  rm x\\u202e",
		`{"command":"log","args":["-p"]}`:                 "  log\n  args: [\"-p\"]",
		`{"file_path":"<a>"}`:                             `  file_path: <a>`,
		`{"text":"a\nb: 1","n":null}`:                     "  n: null\n  text: \n    a\n    b: 1",
		`{"a\u202e":"x\u202ey\u001b[1m"}`:                 "  a\\u202e: x\\u202ey\\x1b[1m",
		`{"n":12345678901234567890}`:                      `  n: 12345678901234567890`,
		`not json`:                                        "  not json",
	} {
		if got := CallText("Bash", []byte(args)); got != want {
			t.Errorf("%s is shown as\n%s\nwant\n%s", args, got, want)
		}
	}
}
