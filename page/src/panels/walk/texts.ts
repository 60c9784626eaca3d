export { en } from "./texts.en";
export { zh } from "./texts.zh";
