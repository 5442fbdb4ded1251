import type { VideoDialectName } from "#shared/catalog/video-dialects.ts";
import { geminiVideos } from "./gemini-videos.ts";
import { openaiVideos } from "./openai-videos.ts";
import type { Provider } from "./provider.ts";

/** Every API for videos that upstreams of the catalog may speak. */
export const providers: Record<VideoDialectName, Provider> = {
  "openai-videos": openaiVideos,
  "gemini-videos": geminiVideos,
};
