package redact_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"symbio/internal/security/redact"
)

// jwt is put together here: a token in one piece would be found by those who look for secrets in repositories.
var (
	jwt   = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mBxyz0"
	aws   = "AKIA" + "IOSFODNN7EXAMPLE"
	slack = "xoxb-" + "123456789012-abcDEF123456"
	pem   = strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKB\n", 3)
	block = "-----BEGIN RSA PRIVATE " + "KEY-----\nProc-Type: 4,ENCRYPTED\n\n" + pem + "abcd==\n-----END RSA PRIVATE " + "KEY-----"
)

// Of each text what stands between « and » is the secret, and all that goes.
var secrets = []string{
	"curl -H 'Authorization: Bearer «abc123def»' https://example.com",
	`curl -H "authorization: Basic «dXNlcjpwYXNz»" example.com`,
	"Authorization: token «0123456789abcdef0123»",
	"Proxy-Authorization: Basic «dXNlcjpwYXNz»",
	"got bearer «" + "abcdefghijklmnopqrstuvwxyz" + "» back",
	"PASSWORD=«hunter2» make install",
	"export DB_PASSWORD=«'two words'»; psql",
	"MYSQL_PWD=«x» mysql",
	"PGPASSWORD=«" + `"s3 cr3t"` + "» psql -h db",
	"password=«swordfish»&user=me",
	"db_passwd: «swordfish»\nport: 1",
	`{"password": «"a b c"», "user": "me"}`,
	`curl -d "{\"password\":«\"hunter2\"»}" host`,
	"password := «\"hunter2\"»",
	"token = «'abcdefgh'»",
	"GITHUB_TOKEN=«abcdef» gh api",
	"AWS_SECRET_ACCESS_KEY=«wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»",
	"api_key: «0a1b2c3d4e5f»",
	"X-Api-Key: «0a1b2c3d4e5f»",
	"https://example.com/cb?access_token=«abc12.def»&state=1",
	"https://s3.example.com/f?X-Amz-Signature=«deadbeef01»",
	"OPENAI: «sk-proj-" + "abcdef0123456789ABCD»",
	"use «ghp_" + "abcdefghijklmnop0123456789abcdefghij» here",
	"«github_pat_" + "11ABCDEFG0abcdefghijklmnop»",
	"«glpat-" + "abcdefghij0123456789»",
	"aws configure set aws_access_key_id «" + aws + "»",
	"hook «" + slack + "» end",
	"id «" + jwt + "»",
	"key «AIza" + "SyA1234567890abcdefghijklmnopqrstuv»",
	"symbio cluster join «SYM1-" + "MXZNT6WRABCDEFGHIJKLMNOP-25474ZRSABCDEFGHIJKLMNOP» 192.0.2.10:7946",
	"git clone https://me:«p%40ss»@example.com/r.git",
	"postgres://app:«p@ss»@db:5432/x?sslmode=off",
	"redis://:«hunter2»@cache:6379",
	"mysql -u root -p«hunter2» shop",
	"sshpass -p «hunter2» ssh host",
	"tool --password «hunter2» --verbose",
	"tool --client-secret=«abc» run",
	"tool --api-key «'a b'» run",
	"curl -u user:«pass» https://example.com",
	"curl --user=user:«pass» https://example.com",
	"docker login -u me -p «hunter2» example.com",
	"openssl rsa -passin pass:«hunter2» -in k.pem",
	"Cookie: «session=abc123; theme=dark»",
	strings.Replace(strings.Replace(block, "KEY-----\nProc", "KEY-----«\nProc", 1), "==\n", "==»\n", 1),
}

// harmless are texts that stay as they are: they look like a secret, or could hide what a shell runs.
var harmless = []string{
	"PWD=/home/me OLDPWD=/tmp ls",
	"PASSWORD=$SECRET make", "PASSWORD=\"$(pass show db)\" psql", "TOKEN=${GITHUB_TOKEN:-none}", "PASSWORD= make", "password=''",
	"PASSWORD_MIN_LENGTH=8", "password_file=/run/secrets/db", "--password-file /run/secrets/db", "--password-stdin < f", "docker build --secret id=npm,src=/x .",
	"max_tokens=4096", "tokens: 512", "--token-limit 100", "token := lexer.Next()", "token = parser.next(3)", "token=self.token", "token = tokens[0]",
	"password: string", "password := os.Getenv(\"DB\")", "if password == \"\" {", "the token is in the file", "Password: required", "reset your password: see the page",
	"Bearer of good news", "Authorization: required", "authorization is basic here", "a cookie: sweet",
	"https://example.com:8080/a@b", "ssh://git@example.com:22/r", "git@example.com:org/repo.git", "npm i pkg@1.2.3 http://localhost:3000",
	"docker run -u 1000:1000 img", "docker run -u node:node img", "rsync -u src host:/dir", "sort -u a.txt", "git push -u origin main:main2", "mysql -u root -p shop",
	"sk-learn", "task-management-0123456789abcd", "sk-circle-fading-spinner-animation", "ghp_short", "AKIAX", "eyJhbGciOi", "risk-0123456789abcdef01",
	"0123456789abcdef0123456789abcdef01234567", "550e8400-e29b-41d4-a716-446655440000", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0 me@host", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----\n" + "MCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----",
	"private_key: ./keys/node.pem", "--private-key /etc/ssl/private.pem", "monkey=banana key=value", "compass:12 bypass:3",
	// A command in the clothes of a secret.
	"echo 'PASSWORD='; rm -rf ~; echo ''", "echo \"PASSWORD: \"; rm -rf ~; echo \"\"", "PASSWORD=\"`id`\" x", "PASSWORD= /bin/run1 x", "tool --password\n/bin/run1 x",
	"echo -----BEGIN PRIVATE " + "KEY-----\nrm -rf /home\n/bin/poweroff\n-----END PRIVATE " + "KEY-----", "echo Authorization: $(rm -rf ~)", "PASSWORD=;reboot",
}

var marks = strings.NewReplacer("«", "", "»", "")

func TestTextRedactsSecretsOnly(t *testing.T) {
	if len(secrets) < 40 || len(harmless) < 40 {
		t.Fatalf("%d forms and %d look-alikes", len(secrets), len(harmless))
	}
	for _, c := range secrets {
		before, rest, _ := strings.Cut(c, "«")
		_, after, _ := strings.Cut(rest, "»")
		if got, want := redact.Text(marks.Replace(c)), before+redact.Mark+after; got != want {
			t.Errorf("%s\n got %s\nwant %s", c, got, want)
		}
	}
	for _, text := range harmless {
		if got := redact.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestJSONRedactsByNameAndByForm(t *testing.T) {
	for in, want := range map[string]string{
		`{"password":"a b","user":"<me>","n":12345678901234567890}`:    `{"n":12345678901234567890,"password":"[redacted]","user":"<me>"}`,
		`{"args":["--token","abc","-v"],"headers":{"Cookie":"a=b"}}`:   `{"args":["--token","[redacted]","-v"],"headers":{"Cookie":"[redacted]"}}`,
		`{"command":"PASSWORD=\u0078y make"}`:                          `{"command":"PASSWORD=[redacted] make"}`,
		`{ "b": 1, "a": "PASSWORD=$X", "password": "", "token": null}`: `{ "b": 1, "a": "PASSWORD=$X", "password": "", "token": null}`,
		`no json`: `no json`,
	} {
		if got := string(redact.JSON(json.RawMessage(in))); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, c := range append(secrets, harmless...) {
		f.Add(marks.Replace(c))
	}
	f.Fuzz(func(t *testing.T, text string) {
		out := redact.Text(text)
		if len(out) > len(text)+len(redact.Mark)*(len(text)/2+1) {
			t.Errorf("%d bytes became %d", len(text), len(out))
		}
		if utf8.ValidString(text) && !utf8.ValidString(out) {
			t.Errorf("%q became %q, which is no UTF-8", text, out)
		}
	})
}

func BenchmarkText(b *testing.B) {
	for name, text := range map[string]string{
		"harmless": "go test ./... -run TestSomething -count=1 && git status --short | head -20 > out.txt; wc -l out.txt",
		"secret":   "curl -s -H 'Authorization: Bearer abc123def456' https://example.com/api | jq -r '.items[] | .name' > out.txt",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				redact.Text(text)
			}
		})
	}
}
