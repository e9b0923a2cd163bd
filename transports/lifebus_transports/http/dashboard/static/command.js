// The command that shows the same as a screen.

/** Return a command of words, quoted where a shell needs it; those that are empty are left out. */
export function commandLine(...words) {
  return ["lifebus", ...words.flat()].filter((one) => !["", null, undefined].includes(one)).map(quoted).join(" ");
}

function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
